"""Names that several rooms use: commands, samplers, schedulers, columns and defaults."""

PARETO, STUDY, RUN = "pareto", "lr-study", "unlearn"
"""The commands that run trials."""
DEFAULT_OBJECTIVES = "forget_loss:max,retain_loss:min"
DEFAULT_TRACKING = "sqlite:///mlflow.db"
NO_SCHEDULER = "none"
"""The value of ``--scheduler`` with which every trial runs all its epochs."""
NO_FRESH_RUNS = "none"
"""The value of ``--confirm`` with which no configuration is trained again after the search."""
NO_ATTACKS = "none"
"""The value of ``--attacks`` with which no model is attacked."""
SCHEDULERS = (NO_SCHEDULER, "moasha")
"""The values of ``--scheduler``. :mod:`sweeper.search.schedulers` creates the schedulers."""
LEARNERS = ("tpe", "nsga2", "nsga3", "gp")
"""The samplers that learn from results and constraints."""
CRITERIA = ("usable", "paper", "none")
"""The values of ``--criterion``: what a good model must meet."""
SAMPLERS = (*LEARNERS, "qmc", "random", "grid")
"""The values of ``--sampler``. :mod:`sweeper.search.samplers` creates the samplers."""
