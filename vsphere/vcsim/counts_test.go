package vcsim

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/vmware/govmomi"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/test/memnet"
)

func TestCountsTrackClientObjectsUntilTheirSessionsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		network := memnet.New()
		v, err := Start(Config{Listener: network.Listen()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = v.Close() })
		ctx := context.Background()
		client := func() *govmomi.Client {
			transport := network.Transport()
			t.Cleanup(transport.CloseIdleConnections)
			c, err := v.Login(ctx, v.URL().User, transport)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		counts := func(want Counts) {
			t.Helper()
			if got := v.Counts(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		}
		one, two := client(), client()
		views := view.NewManager(one.Client)
		list, err := views.CreateListView(ctx, []types.ManagedObjectReference{one.ServiceContent.RootFolder})
		must(err)
		_, err = view.NewManager(two.Client).CreateContainerView(ctx, two.ServiceContent.RootFolder, nil, false)
		must(err)
		pc, err := property.DefaultCollector(one.Client).Create(ctx)
		must(err)
		_, err = pc.CreateFilter(ctx, types.CreateFilter{This: pc.Reference(), Spec: types.PropertyFilterSpec{
			ObjectSet: []types.ObjectSpec{{Obj: one.ServiceContent.RootFolder}},
			PropSet:   []types.PropertySpec{{Type: "Folder", PathSet: []string{"name"}}}}})
		must(err)
		counts(Counts{Sessions: 2, Collectors: 1, Filters: 1, ListViews: 1, ContainerViews: 1, Listed: 1})
		must(pc.Destroy(ctx))
		counts(Counts{Sessions: 2, ListViews: 1, ContainerViews: 1, Listed: 1})
		must(list.Destroy(ctx))
		counts(Counts{Sessions: 2, ContainerViews: 1})
		must(two.Logout(ctx))
		counts(Counts{Sessions: 1})
		v.DropSessions()
		counts(Counts{})
	})
}
