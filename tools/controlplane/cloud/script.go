package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"sigs.k8s.io/yaml"
)

// The file of a simulated cloud (crates/cloud/src/simulated/config.rs).
type script struct {
	Machines      *[]machine         `json:"machines"`
	LoadBalancers *pool              `json:"loadBalancers"`
	Routes        *[]route           `json:"routes"`
	Failures      map[string]failure `json:"failures"`
}

type machine struct {
	Name       string            `json:"name"`
	ID         string            `json:"id"`
	SystemUUID string            `json:"systemUUID"`
	Type       string            `json:"type"`
	Zone       string            `json:"zone"`
	Region     string            `json:"region"`
	State      string            `json:"state"`
	Addresses  []v1.NodeAddress  `json:"addresses"`
	Labels     map[string]string `json:"labels"`
}

type pool struct {
	Addresses  []string               `json:"addresses"`
	ReadyAfter string                 `json:"readyAfter"`
	Ports      bool                   `json:"ports"`
	IPMode     *v1.LoadBalancerIPMode `json:"ipMode"`
}

type route struct {
	Name        string `json:"name"`
	Node        string `json:"node"`
	Destination string `json:"destination"`
	Blackhole   bool   `json:"blackhole"`
}

// An error with this text, one of upstream's errors by name, or one that asks for a retry.
type failure struct {
	Text       string
	Kind       string `json:"kind"`
	Message    string `json:"message"`
	RetryAfter string `json:"retryAfter"`
}

func (f *failure) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return yaml.Unmarshal(data, &f.Text)
	}
	type plain failure
	return yaml.UnmarshalStrict(data, (*plain)(f))
}

func (f failure) error() error {
	switch f.Kind {
	case "instanceNotFound":
		return cloudprovider.InstanceNotFound
	case "notImplemented":
		return cloudprovider.NotImplemented
	case "implementedElsewhere":
		return cloudprovider.ImplementedElsewhere
	}
	if f.RetryAfter != "" {
		return api.NewRetryError(f.Message, duration(f.RetryAfter))
	}
	return errors.New(f.Text)
}

func (m machine) id() string {
	if m.ID == "" {
		return m.Name
	}
	return m.ID
}

func duration(text string) time.Duration {
	if text == "" {
		return 0
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		panic(fmt.Sprintf("%q is not a duration: %v", text, err))
	}
	return parsed
}

func read(file string) (script, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return script{}, err
	}
	var read script
	if err := yaml.UnmarshalStrict(text, &read); err != nil {
		return script{}, fmt.Errorf("%s: %w", file, err)
	}
	return read, nil
}
