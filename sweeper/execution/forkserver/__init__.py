"""Workers of one machine that start with everything imported: each is forked from a process that has done so once.

Importing torch, transformers and what they draw in takes a worker four seconds of a CPU, which every worker would spend
while the first trials wait for it. :mod:`.server` spends them once, while Ray starts; :mod:`.launcher` is what Ray is
told to start in the place of Python.
"""
