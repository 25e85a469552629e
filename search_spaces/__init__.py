"""What may vary in a sweep: spaces over methods, learning rates and method options, as values."""

from search_spaces.builtin import default_space
from search_spaces.errors import SpaceError
from search_spaces.named import named_space
from search_spaces.paper import paper_space
from search_spaces.parameters import Choice, Float, Int
from search_spaces.space import Space

__all__ = ["Choice", "Float", "Int", "Space", "SpaceError", "default_space", "named_space", "paper_space"]
