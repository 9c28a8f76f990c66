package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/cloud-provider/fake"
	"k8s.io/klog/v2"
)

const provider = "simulated"

// Upstream's fake, which knows one answer for all nodes and balancers, with answers from a file in front of every call.
type cloud struct {
	*fake.Cloud
	lock     sync.Mutex
	file     string
	stamp    string
	script   script
	balances map[string]balancer
}

type balancer struct {
	address netip.Addr
	since   time.Time
}

func openCloud(file string) (*cloud, error) {
	script, err := read(file)
	if err != nil {
		return nil, err
	}
	c := &cloud{
		Cloud: &fake.Cloud{
			Provider:             provider,
			EnableInstancesV2:    script.Machines != nil,
			DisableInstances:     true,
			DisableZones:         true,
			DisableClusters:      true,
			DisableLoadBalancers: script.LoadBalancers == nil,
			DisableRoutes:        script.Routes == nil,
			RouteMap:             map[string]*fake.Route{},
		},
		file:     file,
		stamp:    stamp(file),
		script:   script,
		balances: map[string]balancer{},
	}
	if script.Routes != nil {
		for n, route := range *script.Routes {
			name := route.Name
			if name == "" {
				name = fmt.Sprintf("initial-%d", n)
			}
			c.RouteMap[name] = &fake.Route{ClusterName: "kubernetes", Route: cloudprovider.Route{
				Name:            name,
				TargetNode:      types.NodeName(route.Node),
				DestinationCIDR: route.Destination,
				Blackhole:       route.Blackhole,
			}}
		}
	}
	return c, nil
}

func stamp(file string) string {
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.ModTime().UnixNano(), info.Size())
}

// The beginning of every call: reads the file if it has changed, and fails if the call has to fail. The caller unlocks.
func (c *cloud) begin(call string) error {
	c.lock.Lock()
	if now := stamp(c.file); now != "" && now != c.stamp {
		c.stamp = now
		if changed, err := read(c.file); err == nil {
			c.script = changed
		} else {
			klog.Warningf("the cloud stays as it was: %v", err)
		}
	}
	// The fake keeps the error of an earlier call.
	c.Err = nil
	if failure, fails := c.script.Failures[call]; fails {
		return failure.error()
	}
	return nil
}

func (c *cloud) find(node *v1.Node) *machine {
	if c.script.Machines == nil {
		return nil
	}
	for n, machine := range *c.script.Machines {
		switch node.Spec.ProviderID {
		case "":
			if uuid := machine.SystemUUID; uuid == "" && machine.Name == node.Name || uuid != "" && uuid == node.Status.NodeInfo.SystemUUID {
				return &(*c.script.Machines)[n]
			}
		case provider + "://" + machine.id():
			return &(*c.script.Machines)[n]
		}
	}
	return nil
}

// The wrapper, not the fake itself.
func (c *cloud) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return c, c.EnableInstancesV2
}

func (c *cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return c, !c.DisableLoadBalancers
}

func (c *cloud) Routes() (cloudprovider.Routes, bool) {
	return c, !c.DisableRoutes
}

func (c *cloud) InstanceExists(ctx context.Context, node *v1.Node) (bool, error) {
	c.ErrByProviderID = c.begin("instanceExists")
	defer c.lock.Unlock()
	c.ExistsByProviderID = c.find(node) != nil
	return c.Cloud.InstanceExists(ctx, node)
}

func (c *cloud) InstanceShutdown(ctx context.Context, node *v1.Node) (bool, error) {
	c.ErrShutdownByProviderID = c.begin("instanceIsShutDown")
	defer c.lock.Unlock()
	machine := c.find(node)
	if machine == nil {
		return false, cloudprovider.InstanceNotFound
	}
	c.NodeShutdown = machine.State == "stopped"
	return c.Cloud.InstanceShutdown(ctx, node)
}

func (c *cloud) InstanceMetadata(ctx context.Context, node *v1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.MetadataErr = c.begin("instanceMetadata")
	defer c.lock.Unlock()
	machine := c.find(node)
	if machine == nil {
		return nil, cloudprovider.InstanceNotFound
	}
	c.ProviderID = map[types.NodeName]string{types.NodeName(node.Name): provider + "://" + machine.id()}
	// The fake finds types by the provider ID that the Node has, which is none before it is initialised.
	c.InstanceTypes = map[types.NodeName]string{types.NodeName(node.Spec.ProviderID): machine.Type}
	c.SetNodeAddresses(machine.Addresses)
	c.Zone = cloudprovider.Zone{FailureDomain: machine.Zone, Region: machine.Region}
	c.AdditionalLabels = machine.Labels
	return c.Cloud.InstanceMetadata(ctx, node)
}

func (c *cloud) GetLoadBalancer(ctx context.Context, cluster string, service *v1.Service) (*v1.LoadBalancerStatus, bool, error) {
	err := c.begin("getBalancer")
	defer c.lock.Unlock()
	var found balancer
	found, c.Exists = c.balances[cloudprovider.DefaultLoadBalancerName(service)]
	c.ExternalIP, c.Err = found.address.AsSlice(), err
	return c.Cloud.GetLoadBalancer(ctx, cluster, service)
}

func (c *cloud) EnsureLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) (*v1.LoadBalancerStatus, error) {
	err := c.begin("ensureBalancer")
	defer c.lock.Unlock()
	if err != nil {
		return nil, err
	}
	name, pool := cloudprovider.DefaultLoadBalancerName(service), c.script.LoadBalancers
	made, exists := c.balances[name]
	if !exists {
		address, err := c.free(pool.Addresses[0])
		if err != nil {
			return nil, err
		}
		made = balancer{address: address, since: time.Now()}
		c.balances[name] = made
	}
	c.ExternalIP, c.BalancerIPMode = net.IP(made.address.AsSlice()), pool.IPMode
	status, err := c.Cloud.EnsureLoadBalancer(ctx, cluster, service, nodes)
	if left := duration(pool.ReadyAfter) - time.Since(made.since); left > 0 {
		return nil, api.NewRetryError(fmt.Sprintf("load balancer %s is being made", name), left)
	}
	if !pool.Ports {
		status.Ingress[0].Ports = nil
	}
	return status, err
}

// The first address of a range that no balancer has.
func (c *cloud) free(text string) (netip.Addr, error) {
	within := netip.MustParsePrefix(text)
next:
	for address := within.Addr().Next(); within.Contains(address); address = address.Next() {
		for _, other := range c.balances {
			if other.address == address {
				continue next
			}
		}
		return address, nil
	}
	return netip.Addr{}, fmt.Errorf("all addresses are taken")
}

func (c *cloud) UpdateLoadBalancer(ctx context.Context, cluster string, service *v1.Service, nodes []*v1.Node) error {
	c.Err = c.begin("updateBalancer")
	defer c.lock.Unlock()
	return c.Cloud.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (c *cloud) EnsureLoadBalancerDeleted(ctx context.Context, cluster string, service *v1.Service) error {
	err := c.begin("deleteBalancer")
	defer c.lock.Unlock()
	if err == nil {
		delete(c.balances, cloudprovider.DefaultLoadBalancerName(service))
	}
	c.Err = err
	return c.Cloud.EnsureLoadBalancerDeleted(ctx, cluster, service)
}

func (c *cloud) ListRoutes(ctx context.Context, cluster string) ([]*cloudprovider.Route, error) {
	err := c.begin("listRoutes")
	defer c.lock.Unlock()
	c.Err = err
	return c.Cloud.ListRoutes(ctx, cluster)
}

func (c *cloud) CreateRoute(ctx context.Context, cluster string, hint string, route *cloudprovider.Route) error {
	err := c.begin("createRoute")
	defer c.lock.Unlock()
	if err != nil {
		return err
	}
	recorded := *route
	// As our simulated cloud: a route to other addresses is replaced.
	recorded.EnableNodeAddresses = true
	return c.Cloud.CreateRoute(ctx, cluster, hint, &recorded)
}

func (c *cloud) DeleteRoute(ctx context.Context, cluster string, route *cloudprovider.Route) error {
	err := c.begin("deleteRoute")
	defer c.lock.Unlock()
	if err != nil {
		return err
	}
	return c.Cloud.DeleteRoute(ctx, cluster, route)
}
