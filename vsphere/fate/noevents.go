package fate

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// withoutEvents decides about a VM of which vCenter's events tell nothing. A VM that may run has vanished. An error means that vCenter
// did not answer.
func (j *Judge) withoutEvents(ctx context.Context, m inventory.Missing, denied *vcfault.Error) (inventory.Cause, error) {
	restored := m.Reused || m.SeenAt.Before(j.newest.restored)
	switch {
	case m.Reused:
		return inventory.Cause{How: "vCenter has given its moRef to another VM, as after a restore from a backup"}, nil
	case restored && !m.SeenAt.IsZero():
		return inventory.Cause{How: "vCenter's events went back, as after a restore from a backup"}, nil
	case denied != nil:
		return inventory.Cause{How: "vCenter's events cannot be read (grant System.View on the root)"}, nil
	case !m.Off || m.SeenAt.IsZero() || !j.newest.known:
		return inventory.Cause{How: "vCenter has no event that says why"}, nil
	}
	connected, err := j.hostConnected(ctx, m.HostRef)
	if err != nil {
		return inventory.Cause{}, err
	}
	if !connected {
		return inventory.Cause{How: "vCenter has no event that says why, and its host is not connected"}, nil
	}
	return inventory.Cause{Destroyed: true, How: "it was powered off, and its host does not have it any more"}, j.scan(ctx)
}

// hostConnected reports whether a host is there and connected.
func (j *Judge) hostConnected(ctx context.Context, moRef string) (connected bool, err error) {
	if moRef == "" {
		return false, nil
	}
	host := types.ManagedObjectReference{Type: "HostSystem", Value: moRef}
	err = j.calls.Call(ctx, func(ctx context.Context, s *session.Session) error {
		o, err := session.ReadProps(ctx, s, host, "runtime.connectionState")
		connected = session.Prop[types.HostSystemConnectionState](o, "runtime.connectionState") == types.HostSystemConnectionStateConnected
		return err
	})
	if vcfault.MissingObject(err) == host {
		return false, nil
	}
	return connected, err
}
