"""YAML that is read strictly: plain values, each said once."""

from __future__ import annotations

from typing import Any

from sparse_prefgp.support.extras import needed
from sparse_prefgp.support.words import shortened

# Mappings and lists inside each other; no file of ours has more than five.
_DEEPEST = 50


def read_yaml(text: str, where: str, what: str, extra: str = "cli") -> Any:
    """What a text in YAML holds: mappings of text or numbers, lists, and plain values.

    Aliases are refused, by which a short file can stand for one without end.

    :param where: the beginning of a message.
    :param what: is read, for the message where PyYAML is not installed.
    :param extra: which installs it.
    :raises ValueError: what is not YAML, an alias, a key that is there twice or is not text, a
        value that is none of the type it looks like or is tagged with, more than 50 levels.
    :raises ModuleNotFoundError: PyYAML is not installed.
    """
    yaml = needed("yaml", "PyYAML", what, extra)
    try:
        return yaml.load(text, Loader=_loader(yaml))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        line = "" if mark is None else f" in line {mark.line + 1}"
        problem = " ".join(str(error.problem).split())
        raise ValueError(f"{where} is not valid YAML{line}: {problem}; correct it.") from None
    except yaml.YAMLError:
        raise ValueError(
            f"{where} holds characters that YAML does not allow; correct it."
        ) from None


def _loader(yaml: Any) -> Any:
    def wrong(problem: str, mark: Any) -> Exception:
        error: Exception = yaml.constructor.ConstructorError(None, None, problem, mark)
        return error

    class Loader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            mark = self.peek_event().start_mark
            if self.check_event(yaml.AliasEvent):
                raise wrong("an alias (*); write out what it stands for", mark)
            if self.depth > _DEEPEST:
                raise wrong(f"more than {_DEEPEST} levels inside each other", mark)
            self.depth += 1
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_object(self, node: Any, deep: bool = False) -> Any:
            try:
                return super().construct_object(node, deep)
            except yaml.YAMLError:
                raise
            except Exception:  # whatever int, float, date and the like make of a text
                kind, text = node.tag.rpartition(":")[2], shortened(str(node.value))
                raise wrong(
                    f"{text} cannot be read as {kind} (a text stands in quotes)", node.start_mark
                ) from None

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = loader.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float):
                raise wrong("a key that is not text", key_node.start_mark)
            if key in found:
                raise wrong(f"the key {key!r} is there twice", key_node.start_mark)
            found[key] = loader.construct_object(value_node, deep=True)
        return found

    Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return Loader
