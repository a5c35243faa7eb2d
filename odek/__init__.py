"""odek: an LLM agent for the terminal whose commands run in a hardened Docker container.

The map, lowest level first: a room imports only rooms that are listed before it (tests/unit/test_layers.py):

    errors.py          what a user can see go wrong, and exit codes
    patterns.py        regular expressions that are compiled when they are first used
    text.py            foreign text made safe to look at
    sandbox_grammar.py how values of the sandbox's settings are written: the one grammar
    cancel.py          cancelling work, in any thread
    secret_names.py    which variables hold a secret, by their names
    packaged.py        files that are packaged with odek
    redact.py          secrets taken out of text
    process.py         child processes: the only subprocess
    piped.py           long-lived children, line by line
    executor.py        where commands run and files are read: one protocol, two places
    safefile.py        opening a file that others may exchange meanwhile
    gitconfig.py       what a file of git's settings names
    trusted_files.py   files that this machine trusts later, and which of them changed
    json_text.py       JSON by the C code of Python's own, without its package
    strict_json.py     JSON without what Python adds to it: one reader for every file
    linear_pattern.py  regular expressions that cannot hang
    json_schema.py     JSON Schema: a strict part of it, and values compared with it
    operator_home.py   where the operator's files are, and whether they are the operator's
    host.py            the machine and this process: the only os.environ
    state.py           files below ~/.odek: strict, private, atomic, locked
    snapshot/          what turns did to the files of a project: kept, shown, taken back
    config/            settings from their layers, each with its source
    model/             the conversation with a language model
    events.py          what happens in a run, for the sinks that show it
    redacted_events.py the same without secrets, for those who see it
    sandbox/           the container: spec, argv, start, commands, files
    danger/            how dangerous a command is, and what that means
    approval/          project overrides and operations that a person has to approve
    session/           conversations on disk
    host_executor/     the executor of this host: commands, files, folders, and stopping what was started
    tools/             what the model can call
    agent/             the loop, the calls of a turn, the system prompt
    mcp/               the Model Context Protocol: its messages, and servers of others as a client sees them
    bundle/            one file that brings odek and its images to a host without network: its layout and its script
    delegate/          sub-agents: their rights, their work, what comes back
    app/               one run, from its settings to a conversation: the composition root
    mcp_server/        `odek mcp`: the tools of the sandbox for clients of that protocol
    web/               odek serve: live sessions, and the HTTP server that shows them to a browser
    update/            odek update: the releases, and this file replaced by one of them
    demo/              the recorded model and scratch project of `odek demo`
    cli/               parsing, commands, the terminal: prints and exits
    __main__.py        python -m odek
"""

__version__ = "0.1.0"
