package arrival

import (
	"context"
	"errors"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

// vcenter has the events about vm-7, and is the inventory that seeks it.
type vcenter struct {
	session *session.Session
	events  []types.BaseEvent
	late    time.Time // when the events can be read
	refuses error
	until   time.Time // when it no longer refuses; never if it is zero
	queries int
	read    bool
	sought  []inventory.Sought
	told    []plan.Arrival
}

func newVCenter(user string, events ...types.BaseEvent) *vcenter {
	v := &vcenter{events: events, sought: []inventory.Sought{{VMID: plan.VMID{MoRef: "vm-7", InstanceUUID: "u"}, UID: "uid-web", Since: time.Now(), Patient: true}}}
	v.session = &session.Session{User: user, Vim: &vim25.Client{RoundTripper: v, ServiceContent: types.ServiceContent{EventManager: &types.ManagedObjectReference{Type: "EventManager"}}}}
	return v
}

func (v *vcenter) Call(ctx context.Context, f func(context.Context, *session.Session) error) error {
	return f(ctx, v.session)
}

func (v *vcenter) Sought() []inventory.Sought { return v.sought }

func (v *vcenter) Tell(_ inventory.Sought, a plan.Arrival) { v.sought, v.told = nil, append(v.told, a) }

func (v *vcenter) RoundTrip(_ context.Context, req, res soap.HasFault) error {
	switch r := req.(type) {
	case *methods.CreateCollectorForEventsBody:
		v.read = false
		if v.queries++; v.refuses != nil && (v.until.IsZero() || time.Now().Before(v.until)) {
			return v.refuses
		}
		if of := r.Req.Filter.Entity; of == nil || of.Entity.Value != "vm-7" {
			return errors.New("want the events of vm-7 alone")
		}
		res.(*methods.CreateCollectorForEventsBody).Res = new(types.CreateCollectorForEventsResponse)
	case *methods.ReadNextEventsBody:
		body := new(types.ReadNextEventsResponse)
		if !v.read && !time.Now().Before(v.late) {
			body.Returnval = v.events
		}
		v.read = true
		res.(*methods.ReadNextEventsBody).Res = body
	case *methods.DestroyCollectorBody:
		res.(*methods.DestroyCollectorBody).Res = new(types.DestroyCollectorResponse)
	}
	return nil
}

func event(e types.BaseEvent, key int32, at time.Time, user string) types.BaseEvent {
	*e.GetEvent() = types.Event{Key: key, CreatedTime: at, UserName: user,
		Vm: &types.VmEventArgument{Vm: inventory.VMRef("vm-7"), EntityEventArgument: types.EntityEventArgument{Name: "web%2f0"}}}
	return e
}

func (v *vcenter) find(t *testing.T, long time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	New(v, v, zerolog.Nop()).Run(ctx)
}

func TestTheNewestEventSaysHowAVMCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := time.Now()
		for name, c := range map[string]struct {
			events []types.BaseEvent
			want   plan.Arrival
		}{
			"a clone of a VM":                 {[]types.BaseEvent{event(&types.VmClonedEvent{}, 1, at, "Server")}, plan.Arrival{How: plan.Cloned, At: at, User: "Server", Ours: true, Name: "web/0"}},
			"a clone of a template":           {[]types.BaseEvent{event(&types.VmDeployedEvent{}, 1, at, "server")}, plan.Arrival{How: plan.Cloned, At: at, User: "server", Ours: true, Name: "web/0"}},
			"govmomi's simulator, two events": {[]types.BaseEvent{event(&types.VmCreatedEvent{}, 1, at, "server"), event(&types.VmClonedEvent{}, 2, at, "server")}, plan.Arrival{How: plan.Cloned, At: at, User: "server", Ours: true, Name: "web/0"}},
			"a backup":                        {[]types.BaseEvent{event(&types.VmCreatedEvent{}, 1, at, "backup")}, plan.Arrival{How: plan.Created, At: at, User: "backup", Name: "web/0"}},
			"registered after it was made":    {[]types.BaseEvent{event(&types.VmRegisteredEvent{}, 2, at.Add(time.Hour), "eve"), event(&types.VmClonedEvent{}, 1, at, "server")}, plan.Arrival{How: plan.Registered, At: at.Add(time.Hour), User: "eve", Name: "web/0"}},
			"discovered, by no account":       {[]types.BaseEvent{event(&types.VmDiscoveredEvent{}, 1, at, "User")}, plan.Arrival{How: plan.Discovered, At: at, Name: "web/0"}},
			"nothing":                         {nil, plan.Arrival{}},
			"of which vCenter changed the instanceUuid": {[]types.BaseEvent{event(&types.VmInstanceUuidChangedEvent{OldInstanceUuid: "former's"}, 1, at.Add(-time.Hour), "eve"),
				event(&types.VmDeployedEvent{}, 2, at, "server"), event(&types.VmInstanceUuidConflictEvent{InstanceUuid: "u1"}, 3, at.Add(time.Hour), ""),
				event(&types.VmInstanceUuidChangedEvent{OldInstanceUuid: "u1", NewInstanceUuid: "u2"}, 4, at.Add(time.Hour), ""),
				event(&types.VmInstanceUuidChangedEvent{OldInstanceUuid: "u2", NewInstanceUuid: "u"}, 5, at.Add(2*time.Hour), "eve")},
				plan.Arrival{How: plan.Cloned, At: at, User: "server", Ours: true, Name: "web/0", Had: []string{"u1", "u1", "u2"}}},
		} {
			v := newVCenter("server", c.events...)
			v.find(t, 2*time.Minute)
			if len(v.told) != 1 || !reflect.DeepEqual(v.told[0], c.want) {
				t.Errorf("%s: got %+v; want %+v", name, v.told, c.want)
			}
		}
	})
}

// vCenter may store events late, so the absence of one counts only after a minute, if it matters.
func TestAnEventIsAwaitedForAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := newVCenter("server", event(&types.VmClonedEvent{}, 1, time.Now(), "server"))
		late.late = time.Now().Add(30 * time.Second)
		late.find(t, 2*time.Minute)
		if len(late.told) != 1 || late.told[0].How != plan.Cloned || late.queries != len(asks) {
			t.Errorf("got %+v after %d queries; want the clone, after %d", late.told, late.queries, len(asks))
		}
		hasty := newVCenter("server")
		hasty.sought[0].Patient = false
		hasty.find(t, time.Second)
		if len(hasty.told) != 1 || hasty.queries != 1 {
			t.Errorf("got %+v after %d queries; want an answer after one", hasty.told, hasty.queries)
		}
	})
}

// Without the privilege, events are never readable. Any other fault says nothing: vCenter is asked again, for example when a session has too many
// collectors of events.
func TestOnlyAMissingPrivilegeCountsAsNoEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := newVCenter("server")
		denied.refuses = soap.WrapVimFault(&types.NoPermission{})
		denied.find(t, 10*time.Second)
		if len(denied.told) != 1 || !reflect.DeepEqual(denied.told[0], plan.Arrival{}) {
			t.Errorf("got %+v; want an answer without an event", denied.told)
		}
		busy := newVCenter("server", event(&types.VmCreatedEvent{}, 1, time.Now(), "backup"))
		busy.refuses = soap.WrapVimFault(&types.InvalidState{})
		busy.until = time.Now().Add(2 * time.Minute)
		busy.find(t, 90*time.Second)
		if len(busy.told) != 0 {
			t.Errorf("while vCenter refuses: got %+v; want no answer", busy.told)
		}
		busy.find(t, time.Minute)
		if len(busy.told) != 1 || busy.told[0].How != plan.Created {
			t.Errorf("then: got %+v; want the creation", busy.told)
		}
	})
}
