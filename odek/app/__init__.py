"""One run, from its settings to a conversation: what every command and every surface shares."""
