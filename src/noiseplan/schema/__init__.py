"""Schema: attributes, their domains, and the encoding of values to codes."""

from noiseplan.schema.attributes import Attribute, Binned, Categorical, Ordinal
from noiseplan.schema.hierarchical import Hierarchical
from noiseplan.schema.labels import Label
from noiseplan.schema.schema import Schema

__all__ = ["Attribute", "Binned", "Categorical", "Hierarchical", "Label", "Ordinal", "Schema"]
