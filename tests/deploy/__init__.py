"""The files of deploy/ are consistent with each other and with the product. No container runs here.

Reading order:

- `files`: reads the files of deploy/.
- `test_compose_file`: networks, proxies, ports and options of compose.yaml.
- `test_image_files`: the Dockerfile's context, and the health check.
- `test_metrics_files`: every metric of the alerts and of the dashboard exists.
- `test_names`: every metric, alert and field of INFO that docs and deploy/ name exists.
- `test_services`: the Kubernetes manifest and the systemd unit.
"""
