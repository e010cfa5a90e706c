"""One load per file, each run as a process of its own so that the client never shares the server's interpreter.

A load takes ``--server HOST:PORT`` and its own options, and prints one line of JSON with its figures when it ends.
"""
