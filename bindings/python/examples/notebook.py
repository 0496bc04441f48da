"""Cells of a notebook: an experiment, its values and a figure."""

# ANCHOR: run
import conche
import polars

experiment = conche.Experiment("lossy-lan").quick().controllers("default", "cocoa")
results = experiment.run(progress=True)
# ANCHOR_END: run

# ANCHOR: values
values = polars.DataFrame(results.values)
late = values.filter(polars.col("column") == "due_p95_s")
print(late.select("scheme", "axis.loss_percent", "measured", "ci95_low", "ci95_high"))
# ANCHOR_END: values

# ANCHOR: vary
for switches in (5, 20):
    varied = experiment.set("nodes.switch.count", switches).only(loss="5%").replications(1)
    print(switches, len(varied.plan()), "runs")
# ANCHOR_END: vary
