"""Replay searches on tabulated runs: which epochs would a sampler and a scheduler have paid for?"""
