"""A search replayed on trials that were run before: what a sampler, a scheduler and a budget would have found."""
