package flyballtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

func started(t *testing.T, environment *Environment) *kubernetes.Clientset {
	t.Helper()
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	return kubernetes.NewForConfigOrDie(config)
}

func TestACronJobFiresWhenTheClockIsMoved(t *testing.T) {
	one := 1
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	environment := &Environment{Nodes: &one, StartingAt: start}
	client := started(t, environment)
	pod := core.PodSpec{
		RestartPolicy: core.RestartPolicyNever, Containers: []core.Container{{Name: "c", Image: "report"}},
	}
	job := &batch.CronJob{ObjectMeta: meta.ObjectMeta{Name: "report"}, Spec: batch.CronJobSpec{
		Schedule:    "0 * * * *",
		JobTemplate: batch.JobTemplateSpec{Spec: batch.JobSpec{Template: core.PodTemplateSpec{Spec: pod}}},
	}}
	jobs := client.BatchV1().CronJobs("default")
	if _, err := jobs.Create(context.Background(), job, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := environment.Advance(time.Hour); err != nil {
		t.Fatal(err)
	}
	if err := environment.Settled(); err != nil {
		t.Fatal(err)
	}
	fired, err := jobs.Get(context.Background(), "report", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if fired.Status.LastScheduleTime == nil || !fired.Status.LastScheduleTime.Equal(&meta.Time{Time: start.Add(time.Hour)}) {
		t.Errorf("last schedule: %v", fired.Status.LastScheduleTime)
	}
	if fired.Status.LastSuccessfulTime == nil {
		why, err := environment.Why("cronjob", "report")
		t.Error("it has not run: ", why, err)
	}
	if now, err := environment.Now(); err != nil || now.Before(start.Add(time.Hour)) {
		t.Error(now, err)
	}
}

func TestDefinitionsAreAppliedFromTheirFolder(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "widgets.yaml"), []byte(definition), 0o600); err != nil {
		t.Fatal(err)
	}
	environment := &Environment{CRDDirectoryPaths: []string{folder, filepath.Join(folder, "missing")}}
	started(t, environment)
	if err := environment.Apply("{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}}"); err != nil {
		t.Fatal(err)
	}
	why, err := environment.Why("widgets.example.com", "default/a")
	if err != nil || !strings.Contains(why, "Widget default/a") {
		t.Error(why, err)
	}
	if err := environment.Apply("{apiVersion: example.com/v1, kind: Gadget, metadata: {name: a}}"); err == nil ||
		!strings.Contains(err.Error(), "Gadget") {
		t.Error(err)
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	missing := &Environment{BinaryPath: "/no/such/program"}
	if _, err := missing.Start(); err == nil || !strings.Contains(err.Error(), "FLYBALL_BIN") {
		t.Error(err)
	}
	wrong := &Environment{Controllers: []string{"no-such-controller"}}
	if _, err := wrong.Start(); err == nil || !strings.Contains(err.Error(), "stderr says why") {
		t.Error(err)
	}
	strict := &Environment{CRDDirectoryPaths: []string{"/no/such/folder"}, ErrorIfCRDPathMissing: true}
	if _, err := strict.Start(); err == nil || !strings.Contains(err.Error(), "/no/such/folder") {
		t.Error(err)
	}
	if err := strict.Advance(time.Second); err == nil || !strings.Contains(err.Error(), "not running") {
		t.Error(err)
	}
	if err := strict.Stop(); err != nil {
		t.Error(err)
	}
}
