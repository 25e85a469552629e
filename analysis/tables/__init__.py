"""What is read: tables of trials and histories, of this project and external ones."""
