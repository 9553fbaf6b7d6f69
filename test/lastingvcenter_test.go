package test

import (
	"context"
	"flag"
	"net/http"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/simulator"
	apitypes "k8s.io/apimachinery/pkg/types"

	"codeconnect.vmworld.com/vmgroup/sync/hook"
	"codeconnect.vmworld.com/vmgroup/sync/loop"
	"codeconnect.vmworld.com/vmgroup/sync/metacontroller"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
)

var (
	lastingRecorded = flag.String("lasting.recorded", "", "a vCenter's objects that govc object.save wrote, for govmomi's simulator: such as a recorded 8.0.1, in which each clone ends in CannotCreateFile")
	lastingMinutes  = flag.Int("lasting.minutes", 10, "how long groups live there")
)

// The test counts the clones of each minute, in real time. docs/figures.md has the figures.
func TestGroupsOfARecordedVCenterThatRefusesEachClone(t *testing.T) {
	if *lastingRecorded == "" {
		t.Skip("give -lasting.recorded")
	}
	model := &simulator.Model{}
	must.Succeed(t, model.Load(*lastingRecorded))
	const template = "test-snap" // a VM that is powered off, and has a snapshot
	for _, object := range model.Map().All("VirtualMachine") {
		if vm := object.(*simulator.VirtualMachine); vm.Name == template {
			vm.Config.Template, vm.Summary.Config.Template = true, true
		}
	}
	vcenter := model.Service.NewServer()
	defer vcenter.Close()
	at := vcenter.URL
	password, _ := at.User.Password()
	registry := prometheus.NewRegistry()
	var groups *loop.Loop
	vc, err := vsphere.New(vsphere.Config{
		Config:    session.Config{Host: hostOf(at), User: at.User.Username(), Password: password, Insecure: true, Log: zerolog.Nop(), Metrics: registry},
		Selection: inventory.Selection{Folder: "vm-operator"}, Changed: func(uid apitypes.UID) { groups.Changed(uid) },
		Leased: func(uid apitypes.UID, vm string) bool { return groups.Leased(uid, vm) }})
	must.Succeed(t, err)
	groups = loop.New(loop.Config{Slots: 20, Lease: 90 * time.Second, Resync: 45 * time.Second, Log: zerolog.Nop()}, vc)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	go groups.Run(ctx)
	go func() { _ = vc.Run(ctx) }()
	r := &rig{t: t}
	listener := r.listen()
	go func() {
		_ = http.Serve(listener, hook.New(hook.Config{Controller: groups, Preflight: vc, ListGroups: vc.ListGroups, Ready: func() error { return nil }, Log: zerolog.Nop()}))
	}()
	s := &serverReplica{rig: r, url: "http://" + listener.Addr().String()}
	var all []*metacontroller.Group
	for _, g := range (&lasting{serverReplica: s}).groupsOf(*lastingGroups) {
		g.Client, g.Spec.Template = http.DefaultClient, template
		all = append(all, g)
	}
	for minute := range *lastingMinutes {
		called(t, time.Minute, all...)
		t.Logf("after %d minutes: %d clones", minute+1, callsIn(t, registry)["CloneVM_Task"])
	}
	t.Log(all[0].Status.LastMessage)
}
