package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

type node struct {
	csi.UnimplementedNodeServer
	settings
	volumes *volumes
}

func (n *node) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	response := &csi.NodeGetInfoResponse{NodeId: n.node, MaxVolumesPerNode: n.maxVolumes}
	if n.topology {
		response.AccessibleTopology = &csi.Topology{Segments: map[string]string{topologyKey: n.node}}
	}
	return response, nil
}

func (n *node) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	kinds := []csi.NodeServiceCapability_RPC_Type{
		csi.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		csi.NodeServiceCapability_RPC_GET_VOLUME_STATS,
		csi.NodeServiceCapability_RPC_SINGLE_NODE_MULTI_WRITER,
	}
	if n.nodeExpansion {
		kinds = append(kinds, csi.NodeServiceCapability_RPC_EXPAND_VOLUME)
	}
	response := &csi.NodeGetCapabilitiesResponse{}
	for _, kind := range kinds {
		response.Capabilities = append(response.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: kind}},
		})
	}
	return response, nil
}

func (n *node) NodeStageVolume(context.Context, *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	return &csi.NodeStageVolumeResponse{}, nil
}

func (n *node) NodeUnstageVolume(context.Context, *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	return &csi.NodeUnstageVolumeResponse{}, nil
}

func (n *node) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	id := request.VolumeId
	if request.VolumeContext["csi.storage.k8s.io/ephemeral"] == "true" {
		var err error
		if id, err = n.volumes.create(volume{Name: ephemeral(id)}, ""); err != nil {
			return nil, err
		}
	}
	found, err := n.volumes.get(id)
	if err != nil {
		return nil, err
	}
	if found.IsBlock {
		return nil, status.Error(codes.Unimplemented, "block devices cannot be published")
	}
	if err := os.MkdirAll(request.TargetPath, 0o750); err != nil {
		return nil, err
	}
	if isMountPoint(request.TargetPath) {
		return &csi.NodePublishVolumeResponse{}, nil
	}
	if err := unix.Mount(n.volumes.content(id), request.TargetPath, "", unix.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("mount %s: %w", request.TargetPath, err)
	}
	if request.Readonly {
		if err := unix.Mount("", request.TargetPath, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			return nil, fmt.Errorf("make %s read-only: %w", request.TargetPath, err)
		}
	}
	return &csi.NodePublishVolumeResponse{}, nil
}

func (n *node) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if isMountPoint(request.TargetPath) {
		if err := unix.Unmount(request.TargetPath, 0); err != nil {
			return nil, fmt.Errorf("unmount %s: %w", request.TargetPath, err)
		}
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, n.volumes.remove(identifier(ephemeral(request.VolumeId)))
}

func (n *node) NodeGetVolumeStats(_ context.Context, request *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	var disk unix.Statfs_t
	if err := unix.Statfs(request.VolumePath, &disk); err != nil {
		return nil, status.Errorf(codes.NotFound, "%s: %v", request.VolumePath, err)
	}
	block := disk.Bsize
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{
			Unit: csi.VolumeUsage_BYTES, Total: int64(disk.Blocks) * block, Available: int64(disk.Bavail) * block,
			Used: int64(disk.Blocks-disk.Bfree) * block,
		},
		{
			Unit: csi.VolumeUsage_INODES, Total: int64(disk.Files), Available: int64(disk.Ffree),
			Used: int64(disk.Files - disk.Ffree),
		},
	}}, nil
}

func (n *node) NodeExpandVolume(_ context.Context, request *csi.NodeExpandVolumeRequest) (*csi.NodeExpandVolumeResponse, error) {
	expanded, err := n.volumes.expand(request.VolumeId, request.CapacityRange.GetRequiredBytes())
	if err != nil {
		return nil, err
	}
	return &csi.NodeExpandVolumeResponse{CapacityBytes: expanded.Size}, nil
}

// The name of a volume that is part of a pod's specification.
func ephemeral(id string) string { return "ephemeral " + id }

func isMountPoint(path string) bool {
	var here, parent unix.Statx_t
	const mask = unix.STATX_MNT_ID
	if unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, mask, &here) != nil {
		return false
	}
	if unix.Statx(unix.AT_FDCWD, filepath.Dir(path), 0, mask, &parent) != nil {
		return false
	}
	return here.Mnt_id != parent.Mnt_id
}
