package inventory

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// defaultFolder is the root folder when Selection.Folder is empty.
const defaultFolder = "vm-operator"

// Selection says which part of a vCenter the server uses. It is validated once, and immutable.
type Selection struct {
	// Datacenter, Pool and Datastore are names or inventory paths. Empty means the only one there is, and for
	// Datastore the template's own. Pool is a resource pool, or a cluster or host, whose root pool is then used.
	Datacenter, Pool, Datastore string
	// Folder is the root folder below the datacenter's VM folder ("a/b" nests). The server creates it if it is missing.
	Folder string
	// ClusterID names the Kubernetes cluster in the stamp, for people and for restored backups.
	ClusterID string
	// AdoptFrom says from which folders groups may adopt VMs; none by default.
	AdoptFrom []AdoptRule
	// GuestNetworks bound the addresses that guests report: others are ignored. Empty: all are allowed.
	GuestNetworks []netip.Prefix
}

// Validate finds errors that need no vCenter to be known.
func (c Selection) Validate() error {
	return errors.Join(c.validateFolder(), validateAdoptRules(c.AdoptFrom))
}

func (c Selection) validateFolder() error {
	for _, part := range c.folderPath() {
		if part == "" || part == "." || part == ".." || len(part) > 80 {
			return fmt.Errorf(`--folder (VC_FOLDER): %q: give a path below the datacenter's VM folder, such as "vm-operator" or "platform/vms", of names of at most 80 characters`, c.Folder)
		}
	}
	return nil
}

// folderPath returns the names of the root folder's path.
func (c Selection) folderPath() []string {
	if c.Folder == "" {
		return []string{defaultFolder}
	}
	return strings.Split(strings.Trim(c.Folder, "/"), "/")
}
