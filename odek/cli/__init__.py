"""The command line: parsing, commands, the terminal. The only place that prints or exits."""
