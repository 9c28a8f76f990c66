// Package flyballtest starts a Kubernetes cluster for tests: an API server, all controllers, a scheduler and simulated nodes in
// one process of the program flyball, with a clock that the test moves.
//
// Environment has the shape of controller-runtime's envtest.Environment:
//
//	environment := &flyballtest.Environment{CRDDirectoryPaths: []string{"config/crd"}}
//	config, err := environment.Start()
//	defer environment.Stop()
//
// Unlike there, Deployments have pods that become ready, owners take their dependents with them, and
// environment.Advance(time.Hour) fires what is due within an hour.
package flyballtest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// How long a cluster may take to end.
const endsWithin = 30 * time.Second

// Environment is a cluster. Set the exported fields before Start.
type Environment struct {
	// BinaryPath is the program flyball; $FLYBALL_BIN, or flyball of $PATH, by default.
	BinaryPath string
	// Nodes is the number of simulated nodes; nil stands for three.
	Nodes *int
	// Controllers is --controllers of kube-controller-manager; all by default.
	Controllers []string
	// ManagerFlags are further flags of kube-controller-manager.
	ManagerFlags []string
	// StartingAt is what the clock shows first; the last full hour by default.
	StartingAt time.Time
	// CRDDirectoryPaths are files, and folders of files, with manifests that Start applies: .yaml, .yml and .json.
	CRDDirectoryPaths []string
	// ErrorIfCRDPathMissing says whether Start fails if such a path does not exist.
	ErrorIfCRDPathMissing bool

	// Config is the administrator's configuration. Start sets it.
	Config *rest.Config
	// KubeConfig is the path of the administrator's kubeconfig, for kubectl. Start sets it.
	KubeConfig string

	process *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Reader
	mutex   sync.Mutex
}

type answer struct {
	Ready *struct {
		Kubeconfig string `json:"kubeconfig"`
	} `json:"ready"`
	OK    json.RawMessage `json:"ok"`
	Error *string         `json:"error"`
}

// Start starts the cluster; its nodes are ready and the definitions are established when it returns.
func (e *Environment) Start() (*rest.Config, error) {
	if e.process != nil {
		return nil, errors.New("the environment has been started already")
	}
	manifests, err := e.manifests()
	if err != nil {
		return nil, err
	}
	if err := e.launch(); err != nil {
		return nil, err
	}
	config, err := e.prepare(manifests)
	if err != nil {
		return nil, errors.Join(err, e.Stop())
	}
	e.Config = config
	return config, nil
}

func (e *Environment) launch() error {
	binary := e.BinaryPath
	if binary == "" {
		binary = os.Getenv("FLYBALL_BIN")
	}
	if binary == "" {
		binary = "flyball"
	}
	process := exec.Command(binary, e.arguments()...)
	process.Stderr = os.Stderr
	input, err := process.StdinPipe()
	if err != nil {
		return err
	}
	output, err := process.StdoutPipe()
	if err != nil {
		return err
	}
	if err := process.Start(); err != nil {
		return fmt.Errorf("cannot run %s; set FLYBALL_BIN or BinaryPath to the program: %w", binary, err)
	}
	e.process, e.input, e.output = process, input, bufio.NewReader(output)
	return nil
}

func (e *Environment) arguments() []string {
	arguments := []string{"up", "--control", "stdio"}
	if e.Nodes != nil {
		arguments = append(arguments, "--nodes", strconv.Itoa(*e.Nodes))
	}
	if e.Controllers != nil {
		arguments = append(arguments, "--controllers="+strings.Join(e.Controllers, ","))
	}
	if !e.StartingAt.IsZero() {
		arguments = append(arguments, "--starting-at", e.StartingAt.UTC().Format(time.RFC3339Nano))
	}
	if len(e.ManagerFlags) > 0 {
		arguments = append(append(arguments, "--"), e.ManagerFlags...)
	}
	return arguments
}

func (e *Environment) prepare(manifests []string) (*rest.Config, error) {
	first, err := e.read()
	if err != nil {
		return nil, err
	}
	if first.Ready == nil {
		return nil, errors.New("flyball did not say that it is ready")
	}
	e.KubeConfig = first.Ready.Kubeconfig
	config, err := clientcmd.BuildConfigFromFlags("", e.KubeConfig)
	if err != nil {
		return nil, err
	}
	// The cluster is this test's own.
	config.QPS, config.Burst = -1, -1
	for _, manifest := range manifests {
		if err := e.Apply(manifest); err != nil {
			return nil, err
		}
	}
	return config, e.Settled()
}

// Stop ends the cluster. Without a cluster it does nothing.
func (e *Environment) Stop() error {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.process == nil {
		return nil
	}
	process := e.process
	e.process = nil
	_ = e.input.Close()
	timer := time.AfterFunc(endsWithin, func() { _ = process.Process.Kill() })
	defer timer.Stop()
	return process.Wait()
}

// Now is what the cluster's clock shows.
func (e *Environment) Now() (time.Time, error) {
	var shown struct{ Now time.Time }
	err := e.ask(map[string]any{"do": "now"}, &shown)
	return shown.Now, err
}

// Advance moves the cluster's clock: everything that becomes due happens, in order.
func (e *Environment) Advance(by time.Duration) error {
	return e.ask(map[string]any{"do": "advance", "seconds": by.Seconds()}, nil)
}

// Settled waits until the cluster has no work.
func (e *Environment) Settled() error {
	return e.ask(map[string]any{"do": "settled"}, nil)
}

// Apply applies manifests in YAML or JSON.
func (e *Environment) Apply(manifests string) error {
	return e.ask(map[string]any{"do": "apply", "manifests": manifests}, nil)
}

// Why says why an object is as it is. The kind is as for kubectl; the name is NAME, in the namespace default, or NAMESPACE/NAME.
func (e *Environment) Why(kind, name string) (string, error) {
	var why string
	err := e.ask(map[string]any{"do": "why", "kind": kind, "name": name}, &why)
	return why, err
}

func (e *Environment) ask(request map[string]any, into any) error {
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if e.process == nil {
		return errors.New("the environment is not running")
	}
	if _, err := e.input.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("flyball has ended; its stderr says why: %w", err)
	}
	answer, err := e.read()
	switch {
	case err != nil:
		return err
	case answer.Error != nil:
		return errors.New(*answer.Error)
	case into != nil:
		return json.Unmarshal(answer.OK, into)
	}
	return nil
}

func (e *Environment) read() (answer, error) {
	var found answer
	line, err := e.output.ReadBytes('\n')
	if err != nil {
		return found, fmt.Errorf("flyball has ended; its stderr says why: %w", err)
	}
	return found, json.Unmarshal(line, &found)
}

// The texts of all files below CRDDirectoryPaths.
func (e *Environment) manifests() ([]string, error) {
	var texts []string
	for _, root := range e.CRDDirectoryPaths {
		if _, err := os.Stat(root); errors.Is(err, os.ErrNotExist) && !e.ErrorIfCRDPathMissing {
			continue
		}
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			isManifest := slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path))
			if err != nil || entry.IsDir() || !isManifest {
				return err
			}
			text, err := os.ReadFile(path)
			texts = append(texts, string(text))
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return texts, nil
}
