import base64
import json
import ssl
import tempfile
import urllib.request

import pytest

from flyball_testing import Cluster, ClusterError, Unmet

CRON_JOB = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 * * * *"
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{name: c, image: report}]
"""


@pytest.mark.flyball(starting_at="2026-03-01T12:00:00Z", nodes=1)
def test_a_cron_job_fires_when_the_clock_is_moved(flyball):
    flyball.apply(CRON_JOB)
    assert "lastScheduleTime" not in flyball.get("cronjob", "report").get("status", {})
    assert flyball.advance(hours=1).hour == 13
    job = flyball.until("cronjob", "report", lambda job: "lastSuccessfulTime" in job["status"])
    assert job["status"]["lastScheduleTime"] == "2026-03-01T13:00:00Z"


def test_clients_over_https_and_answers(flyball):
    flyball.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}})
    user, cluster = flyball.config["users"][0]["user"], flyball.config["clusters"][0]["cluster"]
    assert cluster["server"] == flyball.server
    pem = {key: base64.b64decode(value).decode() for key, value in {**user, **cluster}.items() if "-data" in key}
    context = ssl.create_default_context(cadata=pem["certificate-authority-data"])
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(pem["client-certificate-data"] + pem["client-key-data"])
        file.flush()
        context.load_cert_chain(file.name)
    with urllib.request.urlopen(flyball.server + "/api/v1/namespaces/default/configmaps/a", context=context) as answer:
        assert json.load(answer)["data"] == {"k": "v"}

    assert flyball.delete("cm", "default/a") is True
    assert flyball.delete("cm", "default/a") is False
    assert flyball.get("cm", "a") is None
    with pytest.raises(ClusterError, match='no kind "widget"'):
        flyball.get("widget", "a")


def test_a_failure_says_why(flyball):
    flyball.apply("{apiVersion: v1, kind: Pod, metadata: {name: a},"
                  " spec: {nodeSelector: {disk: fast}, containers: [{name: c, image: x}]}}")
    with pytest.raises(Unmet, match="didn't match Pod's node affinity/selector"):
        flyball.until("pod", "a", lambda pod: pod["status"]["phase"] == "Running", patience=0)


def test_a_stopped_cluster_and_a_missing_program():
    cluster = Cluster(nodes=0)
    cluster.stop()
    cluster.stop()
    with pytest.raises(ClusterError, match="has stopped"):
        cluster.now()
    with pytest.raises(ClusterError, match="FLYBALL_BIN"):
        Cluster(binary="/no/such/program")
    with pytest.raises(ClusterError, match="ended with code 1"):
        Cluster(controllers=["no-such-controller"])
