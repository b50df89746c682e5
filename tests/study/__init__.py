"""Tests of `anabranch.study`, and of drawings and explanations of runs in the simulator.

Reading order:

- `timelines`: timelines made by hand and at random.
- `drawings`: an SVG file as a test looks at it.
- `test_texts`: visible text, and lines of limited length.
- `test_layout`: no two texts overlap, and each dot is drawn once.
- `test_svg`: well-formed files, escaping, equal bytes.
- `test_narrowing`: one key, a range of time, and drawings that are too large.
- `test_runs`: drawings of scenarios and seeds show what happened in them.
- `test_explanation`: the facts of `anabranch explain`, and its sentences.
- `test_json_output`: the JSON of `explain`, `log` and `whatif` stays as it was.
- `truth`, `issuers`, `views`, `questions`: the true history of a run, and questions in it.
- `events_judge`, `facts_judge`, `groups_judge`, `delivery_judge`: facts beside the truth.
- `test_explained_histories`: explanations of simulated histories, each fact judged.
- `test_commands`: `--svg` of the command line.
"""
