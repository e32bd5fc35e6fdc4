"""The planner for agents: the Model Context Protocol over standard input and output.

`server` speaks the protocol, `tools` lists what an agent may call with the schemas of
the arguments, `checking` holds arguments to these, and `short` says a result in few
words. The standard library does it: importing the protocol's own package takes more
than a second.
"""
