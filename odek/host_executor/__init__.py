"""Work on the host, for runs that have no sandbox: commands, files, and looking into folders."""
