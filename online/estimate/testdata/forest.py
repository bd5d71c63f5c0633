"""Writes forest.csv and forest.json: Friedman's first function (1991) with noise and a
column of categories, and the out-of-bag error of scikit-learn's forest on it.

    pip install scikit-learn==1.9.1
    python3 forest.py
"""
import csv
import json

import numpy as np
import sklearn
from sklearn.datasets import make_friedman1
from sklearn.ensemble import RandomForestRegressor

LEAF, TREES = 5, 300
x, y = make_friedman1(n_samples=400, n_features=6, noise=1.0, random_state=1)
user = np.random.default_rng(2).integers(0, 8, len(y))
y = y + np.array([0, 6, -3, 2, 9, -5, 4, 1])[user]
x, y = np.round(np.column_stack([x, user]), 6), np.round(y, 6)
errors = []
for seed in range(5):
    forest = RandomForestRegressor(TREES, min_samples_leaf=LEAF, oob_score=True, random_state=seed).fit(x, y)
    errors.append(float(np.mean((forest.oob_prediction_ - y) ** 2)))
with open("forest.csv", "w", newline="") as out:
    csv.writer(out).writerows(np.column_stack([x, y]).tolist())
with open("forest.json", "w") as out:
    json.dump({"scikit-learn": sklearn.__version__, "trees": TREES, "min_leaf": LEAF,
               "out_of_bag": round(float(np.mean(errors)), 4), "seeds": [round(e, 4) for e in errors]}, out)
    out.write("\n")
