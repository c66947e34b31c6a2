"""The new names of renamed public modules, for the error of an import by an old name."""

from __future__ import annotations

RENAMED = {
    "holdfast.adversary.characters": "holdfast.edits.typing_errors",
    "holdfast.adversary.negatives": "holdfast.adversary.learned_negatives",
    "holdfast.adversary.queue": "holdfast.adversary.key_queue",
    "holdfast.adversary.slips": "holdfast.edits.random_edits, and its class Slips is now RandomEdits",
    "holdfast.adversary.virtual": "holdfast.adversary.virtual_adversary",
    "holdfast.adversary.words": "holdfast.edits.words",
    "holdfast.attacks.tagging": "holdfast.edits.tagging",
    "holdfast.baselines.run": "holdfast.baselines.construction",
    "holdfast.baselines.settings": "holdfast.baselines.baseline_settings",
    "holdfast.demo.corpus": "holdfast.data.python_prose, and demo_corpus is now load_python_prose",
    "holdfast.demo.demo_stages": "holdfast.demo.methods_stages",
    "holdfast.evaluation.run": "holdfast.evaluation.evaluation_run",
    "holdfast.functions": "holdfast.user_functions",
    "holdfast.objectives.own": "holdfast.user_classes, and own_method is now load_class",
    "holdfast.training.config": "holdfast.training.train_config",
}


class RenamedModules:
    """Last finder of ``sys.meta_path``: refuses the old names that the documentation once gave."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise a `ModuleNotFoundError` with the new name if a module was renamed; find nothing."""
        if name in RENAMED:
            raise ModuleNotFoundError(f"{name} is now {RENAMED[name]}", name=name)
