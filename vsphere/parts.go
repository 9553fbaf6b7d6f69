// This file is the state that the steps, previews and the check share.

package vsphere

import (
	"sync"
	"sync/atomic"

	"github.com/rs/zerolog"
	"k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/arrival"
	"codeconnect.vmworld.com/vmgroup/vsphere/attributes"
	"codeconnect.vmworld.com/vmgroup/vsphere/disks"
	"codeconnect.vmworld.com/vmgroup/vsphere/hosts"
	"codeconnect.vmworld.com/vmgroup/vsphere/inflight"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/library"
	"codeconnect.vmworld.com/vmgroup/vsphere/removalcause"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/tagging"
	"codeconnect.vmworld.com/vmgroup/vsphere/tasks"
)

// parts is the state of a VCenter. Steps, previews and the check share it.
type parts struct {
	cfg       Config
	log       zerolog.Logger
	client    *session.Client
	tasks     *tasks.Tasks
	inventory *inventory.Inventory
	reader    *inventory.Reader
	stream    *inventory.Stream
	clones    *tasks.OlderClones
	fresh     freshReads
	lookups   lookups
	tagCache  *tagging.Cache
	tagWatch  *tagging.Watcher
	libraries *library.Cache
	fields    attributes.Cache
	inFlight  *inflight.Steps
	troubles  troubles
	removals  *removalcause.Finder
	arrivals  *arrival.Finder
	capacity  hosts.Capacity
	made      madeFolders
	// persistent manages the persistent disks of groups.
	persistent *disks.Persistent
	scanTook   atomic.Int64 // the duration of the last full inventory read of confirmGone, in nanoseconds
	asked      sync.Map     // the guests that this process asked to shut down: the bootTime by the VM's moRef
	marks      sync.Map     // the marks after which this process read all members of the group: the stamp's MarkedAt by the VM's moRef

	// undoersTurn is held by the step that asks for its undoers: a session can have only 32 collectors of events
	// (http://www.lucd.info/2009/12/18/events-part-3-auditing-vm-device-changes/).
	undoersTurn chan struct{}
}

// changed calls Config.Changed.
func (v *parts) changed(uid types.UID) {
	if v.cfg.Changed != nil {
		v.cfg.Changed(uid)
	}
}
