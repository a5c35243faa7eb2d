"""What a turn did to the files of a project, kept so that it can be shown and taken back."""
