"""What a model scores: losses, metrics, and the per-item values behind them."""
