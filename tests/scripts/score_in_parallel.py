"""Score shares of one test set, each in a process of its own, and print what every process got."""

import json
import multiprocessing
import sys

from vanilla_transformer.scoring import TranslationMetric


def score(cache, experiment, share, shares):
    metric = TranslationMetric(
        cache_dir=cache, experiment_id=experiment, num_process=len(shares), process_id=share
    )
    for pairs in (shares[share][:1], shares[share][1:]):
        predictions, references = zip(*pairs, strict=True) if pairs else ((), ())
        metric.add_batch(predictions=predictions, references=references)
    return metric.compute()


def main(cache):
    results = []
    for number, shares in enumerate(json.load(sys.stdin)):
        with multiprocessing.get_context("fork").Pool(len(shares)) as pool:
            tasks = [(cache, str(number), share, shares) for share in range(len(shares))]
            results.append(pool.starmap(score, tasks, chunksize=1))
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
