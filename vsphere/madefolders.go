// This file removes the folders above groups' folders that this process made and no group needs any more.

package vsphere

import (
	"context"
	"sync"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/naming"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// madeFolders are the folders that CreateFolder made for this process, by their moRefs, with their names and parents. Nothing in vCenter shows who made a
// folder, so one that another process made stays, and so does each after a restart. Its zero value is empty.
type madeFolders struct {
	mu sync.Mutex
	of map[string]madeFolder
}

type madeFolder struct{ name, parent string }

func (m *madeFolders) add(folder, parent, name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.of == nil {
		m.of = map[string]madeFolder{}
	}
	m.of[folder] = madeFolder{name, parent}
}

// drop forgets a folder that was removed. emptied reports whether its parent is one of these folders, and contains none of them any more.
func (m *madeFolders) drop(folder, parent string) (was madeFolder, emptied bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, folder)
	for _, other := range m.of {
		if other.parent == parent {
			return madeFolder{}, false
		}
	}
	was, emptied = m.of[parent]
	return was, emptied
}

// removeEmptied removes, from the inside out, the folders above a removed one that this process made, if a fresh read shows no object in them and no
// permission on them, and the name and the parent that they were made with: a restored vCenter gives moRefs to other folders. If a folder can't be removed,
// the step doesn't fail. Another replica may put a group's folder into one at the same moment: that folder is gone,
// too, and the replica makes it again, before its first clone.
func (g groupRemoval) removeEmptied(ctx context.Context, folder, parent string) {
	for range deepestFolder {
		was, emptied := g.made.drop(folder, parent)
		if !emptied {
			return
		}
		var now freshFolder
		ref, free := inventory.FolderRef(parent), false
		err := g.Call(ctx, func(ctx context.Context, s *session.Session) error {
			var permitted []types.Permission
			o, err := session.ReadProps(ctx, s, ref, append(now.properties(), session.Taking("permission", func(v types.ArrayOfPermission) { permitted = v.Permission }))...)
			free = err == nil && o.Found && !o.Withheld && naming.Unescape(now.Name) == naming.Unescape(was.name) && now.Parent == was.parent && len(now.Children)+len(permitted) == 0
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
		folder, parent = parent, was.parent
	}
}

// deepestFolder bounds the levels that are removed. placement.folder has at most 1,024 characters.
const deepestFolder = 1024
