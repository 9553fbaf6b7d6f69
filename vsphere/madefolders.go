// This file removes the folders above groups' folders that this process made and no group needs any more.

package vsphere

import (
	"context"
	"sync"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// madeFolders are the folders that CreateFolder made for this process, by their moRefs, with their parents. Nothing in vCenter shows who made a folder, so
// one that another process made stays, and so does each after a restart. Its zero value is empty.
type madeFolders struct {
	mu     sync.Mutex
	parent map[string]string
	within map[string]int // how many of them are in a folder
}

func (m *madeFolders) add(folder, parent string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parent == nil {
		m.parent, m.within = map[string]string{}, map[string]int{}
	}
	if _, known := m.parent[folder]; !known {
		m.parent[folder] = parent
		m.within[parent]++
	}
}

// drop forgets a folder that was removed. emptied reports whether its parent is one of these folders, and has none of them any more; above is the
// parent's parent.
func (m *madeFolders) drop(folder, parent string) (above string, emptied bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known := m.parent[folder]; known {
		delete(m.parent, folder)
		if m.within[parent]--; m.within[parent] <= 0 {
			delete(m.within, parent)
		}
	}
	above, made := m.parent[parent]
	return above, made && m.within[parent] == 0
}

// removeEmptied removes, from the inside out, the folders above a removed one that this process made, if a fresh read shows no object in them and no
// permission on them. That is no reason for the step to fail. Another replica may put a group's folder into one at the same moment: that folder is gone,
// too, and the replica makes it again, before its first clone.
func (g groupRemoval) removeEmptied(ctx context.Context, folder, parent string) {
	for range deepestFolder {
		above, emptied := g.made.drop(folder, parent)
		if !emptied {
			return
		}
		ref, free := inventory.FolderRef(parent), false
		err := g.Call(ctx, func(ctx context.Context, s *session.Session) error {
			var children []types.ManagedObjectReference
			var permitted []types.Permission
			o, err := session.ReadProps(ctx, s, ref, session.Refs("childEntity", &children),
				session.Taking("permission", func(v types.ArrayOfPermission) { permitted = v.Permission }))
			free = err == nil && o.Found && !o.Withheld && len(children)+len(permitted) == 0
			return err
		})
		if err == nil && free {
			err = g.unregisterAndDestroy(ctx, ref)
		}
		if err != nil {
			g.log.Debug().Err(err).Str("folder", parent).Msg("cannot remove an empty folder that the server made")
		}
		if err != nil || !free {
			return
		}
		folder, parent = parent, above
	}
}

// deepestFolder bounds the levels that are removed. placement.folder has at most 1,024 characters.
const deepestFolder = 1024
