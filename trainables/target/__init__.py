"""The target model all trials start from, and the retain model metrics compare with: made once, cached by content."""
