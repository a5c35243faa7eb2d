"""One running sandbox: start, verify, commands, files, end."""
