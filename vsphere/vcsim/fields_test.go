package vcsim_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

func TestCustomAttributes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := start(t, vcsim.Config{})
		theirs, err := v.AddAttribute("owner")
		ok(t, err)
		c := login(t, v)
		vm := addVM(t, v, "/DC0/vm", "vm")
		w := c.watch(t, tree(c.ServiceContent.RootFolder, "customValue"))
		w.next(t, 1)
		m, err := object.GetCustomFieldsManager(c.Client.Client)
		ok(t, err)
		ours, err := m.Add(c.ctx, "group", "VirtualMachine", nil, nil)
		ok(t, err)
		if theirs <= 0 || ours.Key <= theirs {
			t.Errorf("got the keys %d and %d", theirs, ours.Key)
		}
		_, err = m.Add(c.ctx, "group", "VirtualMachine", nil, nil)
		wantFault[*types.DuplicateName](t, err)
		ok(t, m.Set(c.ctx, vm, theirs, "me"))
		ok(t, m.Set(c.ctx, vm, ours.Key, "web"))
		ok(t, m.Set(c.ctx, vm, ours.Key, "web2"))
		want := map[string]string{"owner": "me", "group": "web2"}
		if got, err := v.AttributesOf("vm"); err != nil || !maps.Equal(got, want) {
			t.Errorf("got %v (%v)", got, err)
		}
		if updates := w.next(t, 5); len(updates) == 0 {
			t.Error("the stream reports nothing")
		}
		var props mo.VirtualMachine
		ok(t, c.RetrieveOne(c.ctx, vm, []string{"customValue", "value", "availableField"}, &props))
		if len(props.CustomValue) != 2 || len(props.Value) != 2 || len(props.AvailableField) != 2 {
			t.Errorf("a client reads %+v", props)
		}
		fields, err := m.Field(c.ctx)
		if err != nil || len(fields) != 2 {
			t.Errorf("got the fields %v, %v", fields, err)
		}
		ok(t, v.CloneVM(template, "/DC0/vm", "later"))
		if later := details(t, v, "later"); later.Ref.Value == "" {
			t.Error("the clone failed")
		}
		wantFault[*types.InvalidArgument](t, m.Set(c.ctx, vm, 4711, "x"))
		wantFault[*types.ManagedObjectNotFound](t, m.Set(c.ctx, types.ManagedObjectReference{Type: "VirtualMachine", Value: "gone"}, theirs, "x"))
	})
}

func TestRegisteredExtensionIsFound(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m, err := object.GetExtensionManager(c.Client.Client)
		ok(t, err)
		if x, err := m.Find(c.ctx, "com.example.vmgroup"); err != nil || x != nil {
			t.Errorf("found %v, %v", x, err)
		}
		ok(t, v.RegisterExtension("com.example.vmgroup"))
		x, err := m.Find(c.ctx, "com.example.vmgroup")
		ok(t, err)
		if x == nil || !slices.ContainsFunc(x.ManagedEntityInfo, func(i types.ExtManagedEntityInfo) bool { return i.Type == "vm" }) {
			t.Errorf("found %+v", x)
		}
		if err := v.RegisterExtension("com.example.vmgroup"); err == nil {
			t.Error("a second registration succeeds")
		}
	})
}
