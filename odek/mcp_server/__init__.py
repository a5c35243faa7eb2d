"""`odek mcp`: a shell in odek's container, and its file tools, for any client of the Model Context Protocol.

One reader (the main thread), eight workers and one writer. What a start needs is in lines.py, server.py and calls.py;
the rest (settings aside) is imported by the threads that need it.
"""
