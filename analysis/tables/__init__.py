"""Read tables of trials and histories, both those of this project and external ones."""
