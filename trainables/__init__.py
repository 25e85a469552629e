"""The parts of an unlearning run, from the target model to the Ray worker."""
