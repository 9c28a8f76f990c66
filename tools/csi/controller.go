package main

import (
	"context"
	"slices"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const maxSize = 1 << 40

type controller struct {
	csi.UnimplementedControllerServer
	settings
	volumes *volumes
}

func (c *controller) ControllerGetCapabilities(context.Context, *csi.ControllerGetCapabilitiesRequest) (*csi.ControllerGetCapabilitiesResponse, error) {
	kinds := []csi.ControllerServiceCapability_RPC_Type{
		csi.ControllerServiceCapability_RPC_CREATE_DELETE_VOLUME,
		csi.ControllerServiceCapability_RPC_CLONE_VOLUME,
		csi.ControllerServiceCapability_RPC_GET_CAPACITY,
		csi.ControllerServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if c.attach {
		kinds = append(kinds, csi.ControllerServiceCapability_RPC_PUBLISH_UNPUBLISH_VOLUME)
	}
	if c.controllerExpansion {
		kinds = append(kinds, csi.ControllerServiceCapability_RPC_EXPAND_VOLUME)
	}
	if c.modify {
		kinds = append(kinds, csi.ControllerServiceCapability_RPC_MODIFY_VOLUME)
	}
	response := &csi.ControllerGetCapabilitiesResponse{}
	for _, kind := range kinds {
		response.Capabilities = append(response.Capabilities, &csi.ControllerServiceCapability{
			Type: &csi.ControllerServiceCapability_Rpc{Rpc: &csi.ControllerServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

func (c *controller) CreateVolume(_ context.Context, request *csi.CreateVolumeRequest) (*csi.CreateVolumeResponse, error) {
	if request.Name == "" || len(request.VolumeCapabilities) == 0 {
		return nil, status.Error(codes.InvalidArgument, "a volume has a name and capabilities")
	}
	size := request.CapacityRange.GetRequiredBytes()
	if size > maxSize {
		return nil, status.Error(codes.OutOfRange, "too large")
	}
	if err := c.checkMutable(request.MutableParameters); err != nil {
		return nil, err
	}
	isBlock := slices.ContainsFunc(request.VolumeCapabilities, func(capability *csi.VolumeCapability) bool {
		return capability.GetBlock() != nil
	})
	source := request.VolumeContentSource.GetVolume().GetVolumeId()
	id, err := c.volumes.create(volume{Name: request.Name, Size: size, IsBlock: isBlock}, source)
	if err != nil {
		return nil, err
	}
	created := &csi.Volume{
		VolumeId: id, CapacityBytes: size, VolumeContext: request.Parameters, ContentSource: request.VolumeContentSource,
	}
	if c.topology {
		created.AccessibleTopology = []*csi.Topology{{Segments: map[string]string{topologyKey: c.node}}}
	}
	return &csi.CreateVolumeResponse{Volume: created}, nil
}

func (c *controller) DeleteVolume(_ context.Context, request *csi.DeleteVolumeRequest) (*csi.DeleteVolumeResponse, error) {
	return &csi.DeleteVolumeResponse{}, c.volumes.remove(request.VolumeId)
}

func (c *controller) ControllerPublishVolume(_ context.Context, request *csi.ControllerPublishVolumeRequest) (*csi.ControllerPublishVolumeResponse, error) {
	if request.NodeId != c.node {
		return nil, status.Errorf(codes.NotFound, "no node %q", request.NodeId)
	}
	_, err := c.volumes.get(request.VolumeId)
	return &csi.ControllerPublishVolumeResponse{}, err
}

func (c *controller) ControllerUnpublishVolume(context.Context, *csi.ControllerUnpublishVolumeRequest) (*csi.ControllerUnpublishVolumeResponse, error) {
	return &csi.ControllerUnpublishVolumeResponse{}, nil
}

func (c *controller) ValidateVolumeCapabilities(_ context.Context, request *csi.ValidateVolumeCapabilitiesRequest) (*csi.ValidateVolumeCapabilitiesResponse, error) {
	if _, err := c.volumes.get(request.VolumeId); err != nil {
		return nil, err
	}
	return &csi.ValidateVolumeCapabilitiesResponse{
		Confirmed: &csi.ValidateVolumeCapabilitiesResponse_Confirmed{VolumeCapabilities: request.VolumeCapabilities},
	}, nil
}

func (c *controller) GetCapacity(context.Context, *csi.GetCapacityRequest) (*csi.GetCapacityResponse, error) {
	return &csi.GetCapacityResponse{AvailableCapacity: maxSize}, nil
}

func (c *controller) ControllerExpandVolume(_ context.Context, request *csi.ControllerExpandVolumeRequest) (*csi.ControllerExpandVolumeResponse, error) {
	size := request.CapacityRange.GetRequiredBytes()
	if size > maxSize {
		return nil, status.Error(codes.OutOfRange, "too large")
	}
	expanded, err := c.volumes.expand(request.VolumeId, size)
	if err != nil {
		return nil, err
	}
	return &csi.ControllerExpandVolumeResponse{CapacityBytes: expanded.Size, NodeExpansionRequired: c.nodeExpansion}, nil
}

func (c *controller) ControllerModifyVolume(_ context.Context, request *csi.ControllerModifyVolumeRequest) (*csi.ControllerModifyVolumeResponse, error) {
	if _, err := c.volumes.get(request.VolumeId); err != nil {
		return nil, err
	}
	return &csi.ControllerModifyVolumeResponse{}, c.checkMutable(request.MutableParameters)
}

func (c *controller) checkMutable(parameters map[string]string) error {
	for name := range parameters {
		if len(c.mutable) > 0 && !slices.Contains(c.mutable, name) {
			return status.Errorf(codes.InvalidArgument, "parameter %q cannot be modified", name)
		}
	}
	return nil
}
