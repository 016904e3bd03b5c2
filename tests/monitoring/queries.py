"""Sends each query of a dashboard to a Prometheus, and checks that its alert rules are evaluated.

Usage: queries.py URL DASHBOARD
"""

import json
import sys
import urllib.parse
import urllib.request

VARIABLES = {"$instance": ".*", "$__rate_interval": "15s"}
# Metrics that may have no data yet: the latency of the load alone is known after a while, and with it the slack
# of the guard. The hit ratio of the cache has no value while memtables answer all reads.
SOMETIMES = ["ebb_guard_alone_seconds", "ebb_guard_slack_ratio", "ebb_block_cache_hits_total"]


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        answer = json.load(answer)
    assert answer["status"] == "success", answer
    return answer["data"]


def main(prometheus, dashboard):
    with open(dashboard) as file:
        panels = json.load(file)["panels"]
    wrong = []
    queries = 0
    for panel in panels:
        for target in panel["targets"]:
            query = target["expr"]
            for name, value in VARIABLES.items():
                query = query.replace(name, value)
            queries += 1
            parameters = urllib.parse.urlencode({"query": query})
            found = get(f"{prometheus}/api/v1/query?{parameters}")["result"]
            has_number = any(sample["value"][1] != "NaN" for sample in found)
            if not has_number and not any(name in query for name in SOMETIMES):
                wrong.append(f"{panel['title']}: no data for {query}")
    rules = [rule for group in get(f"{prometheus}/api/v1/rules")["groups"] for rule in group["rules"]]
    wrong += [f"{rule['name']}: {rule['lastError']}" for rule in rules if rule["health"] != "ok"]
    firing = [rule["name"] for rule in rules if rule["state"] == "firing"]
    wrong += [f"{name} fires at a server that is well" for name in firing]
    for text in wrong:
        print(text)
    print(f"{queries} queries, {len(rules)} alert rules, {len(wrong)} wrong")
    assert queries > 20 and rules
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
