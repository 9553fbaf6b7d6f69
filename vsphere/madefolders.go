package vsphere

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
)

// madeFolders remembers which folders this process made for groups. The status of a group has them from its next hook call on, but a
// later call may bring an older status.
type madeFolders struct {
	mu  sync.Mutex
	all map[types.UID][]string
}

// madeMost bounds the remembered groups. Those that are forgotten have their folders in their statuses.
const madeMost = 1024

func (m *madeFolders) add(uid types.UID, folder string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.all == nil || len(m.all) >= madeMost {
		m.all = map[types.UID][]string{}
	}
	m.all[uid] = append(slices.Clip(m.all[uid]), folder)
}

// foldersMost bounds the folders that a group's status names. Newer ones are left out, so that the status does not alternate.
const foldersMost = 16

// foldersOf returns the folders that were made for a group and that exist. While the group has no folder at its path, a new one may not
// have been seen yet.
func (v *VCenter) foldersOf(uid types.UID, ask *plan.Query, s *plan.VCenterState) []string {
	folders := slices.Clone(ask.Folders)
	if ask.RecordedIn != s.VCenter {
		folders = nil
	}
	v.made.mu.Lock()
	made := v.made.all[uid]
	v.made.mu.Unlock()
	for _, folder := range made {
		if !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
	}
	if s.Folder != "" {
		folders = slices.DeleteFunc(folders, func(f string) bool { return !v.inventory.HasPlace(f) })
	}
	return folders[:min(len(folders), foldersMost)]
}
