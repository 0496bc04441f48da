"""Tunes CoCoA's parameters on some networks, and reports on others.

    python tune.py [TRIALS]

The objective is the geometric mean of ratios to RFC 7252's default over all primary metrics of the
training networks, which are networks of design; the others are networks of judgement.
"""

import sys

import conche
import optuna
import polars

TRAINING = ["geo", "home-uplink", "lossy-lan", "route-change"]
REPORT = ["codel", "gprs", "leo", "short-queue"]
SEED = 1


def mean_ratio(networks: list[str], controllers: list[str]) -> polars.DataFrame:
    results = conche.compare(networks, controllers=["default", *controllers], baseline="default", seed=SEED)
    return polars.DataFrame(results.ranking).select("purpose", "controller", "mean", "ci95_low", "ci95_high")


# ANCHOR: tune
def objective(trial: optuna.Trial) -> float:
    cocoa = conche.configured(
        "cocoa",
        strong_k=trial.suggest_int("strong_k", 1, 8),
        weak_k=trial.suggest_int("weak_k", 1, 4),
        strong_weight=trial.suggest_float("strong_weight", 0.1, 0.9, step=0.05),
        weak_weight=trial.suggest_float("weak_weight", 0.05, 0.9, step=0.05),
    )
    ranking = mean_ratio(TRAINING, [cocoa])
    return ranking.filter(controller=cocoa)["mean"][0]


def tune(trials: int) -> str:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=SEED))
    study.enqueue_trial({"strong_k": 4, "weak_k": 1, "strong_weight": 0.5, "weak_weight": 0.25})
    study.optimize(objective, n_trials=trials, show_progress_bar=sys.stderr.isatty())
    return conche.configured("cocoa", **study.best_params)
# ANCHOR_END: tune


def main(trials: int = 100) -> polars.DataFrame:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    tuned = tune(trials)
    print(f"{trials} trials, seed {SEED}: {tuned}")
    report = mean_ratio(REPORT, ["cocoa", tuned])
    with polars.Config(fmt_str_lengths=100, tbl_hide_dataframe_shape=True, float_precision=2):
        print(report)
    return report


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
