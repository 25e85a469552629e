"""Reads tables of trials and histories, of this project and external ones."""
