package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The volumes of a node: a folder for each with what is known about it, and its content in another, or in a file if it is a block
// device.
type volumes struct {
	folder string
	lock   sync.Mutex
}

type volume struct {
	Name    string
	Size    int64
	IsBlock bool
}

// The identifier of the volume with this name.
func identifier(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

func (v *volumes) about(id string) string {
	return filepath.Join(v.folder, filepath.Base(id), "about.json")
}
func (v *volumes) content(id string) string {
	return filepath.Join(v.folder, filepath.Base(id), "content")
}

func (v *volumes) get(id string) (*volume, error) {
	text, err := os.ReadFile(v.about(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, status.Errorf(codes.NotFound, "no volume %q", id)
	}
	if err != nil {
		return nil, err
	}
	found := &volume{}
	return found, json.Unmarshal(text, found)
}

func (v *volumes) put(id string, what *volume) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return os.WriteFile(v.about(id), text, 0o640)
}

// Makes a volume, or finds the one that an earlier request made; the content is that of another one, or empty.
func (v *volumes) create(what volume, source string) (string, error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	id := identifier(what.Name)
	if found, err := v.get(id); err == nil {
		if found.Size != what.Size || found.IsBlock != what.IsBlock {
			return "", status.Errorf(codes.AlreadyExists, "volume %q is another", what.Name)
		}
		return id, nil
	}
	// What an interrupted request left.
	if err := os.RemoveAll(filepath.Join(v.folder, id)); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Join(v.folder, id), 0o755); err != nil {
		return "", err
	}
	if err := v.fill(id, what, source); err != nil {
		return "", err
	}
	return id, v.put(id, &what)
}

func (v *volumes) fill(id string, what volume, source string) error {
	if source != "" {
		if _, err := v.get(source); err != nil {
			return err
		}
		if output, err := exec.Command("cp", "-a", v.content(source), v.content(id)).CombinedOutput(); err != nil {
			return status.Errorf(codes.Internal, "copy the content: %s", output)
		}
	}
	if what.IsBlock {
		file, err := os.OpenFile(v.content(id), os.O_CREATE|os.O_RDWR, 0o640)
		if err != nil {
			return err
		}
		defer file.Close()
		return file.Truncate(what.Size)
	}
	if err := os.MkdirAll(v.content(id), 0o777); err != nil {
		return err
	}
	return os.Chmod(v.content(id), 0o777)
}

func (v *volumes) remove(id string) error {
	v.lock.Lock()
	defer v.lock.Unlock()
	return os.RemoveAll(filepath.Join(v.folder, filepath.Base(id)))
}

// Makes a volume larger; it never becomes smaller.
func (v *volumes) expand(id string, size int64) (*volume, error) {
	v.lock.Lock()
	defer v.lock.Unlock()
	found, err := v.get(id)
	if err != nil || found.Size >= size {
		return found, err
	}
	found.Size = size
	if found.IsBlock {
		if err := os.Truncate(v.content(id), size); err != nil {
			return nil, err
		}
	}
	return found, v.put(id, found)
}
