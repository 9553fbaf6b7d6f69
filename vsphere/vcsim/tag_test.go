package vcsim_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vapi/tags"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"codeconnect.vmworld.com/vmgroup/vsphere/vcsim"
)

const (
	attachCall = "POST /rest/com/vmware/cis/tagging/tag-association/id:?~action=attach"
	loginCall  = "POST /rest/com/vmware/cis/session"
)

// rest also logs in to the REST API.
func (c *client) rest(t testing.TB, v *vcsim.VCenter) *tags.Manager {
	t.Helper()
	r := c.restClient()
	ok(t, r.Login(c.ctx, v.URL().User))
	return tags.NewManager(r)
}

// restClient uses the SOAP client's transport.
func (c *client) restClient() *rest.Client {
	r := rest.NewClient(c.Client.Client)
	r.Client.Client.Transport = c.Client.Client.Client.Transport
	return r
}

func TestTagsCanBeCreatedAttachedAndListed(t *testing.T) {
	inABubble(t, vcsim.Config{User: "me", Password: "secret"}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m := c.rest(t, v)
		category, err := m.CreateCategory(c.ctx, &tags.Category{Name: "env", Cardinality: "MULTIPLE", AssociableTypes: []string{"VirtualMachine"}})
		ok(t, err)
		prod, err := m.CreateTag(c.ctx, &tags.Tag{Name: "prod", CategoryID: category})
		ok(t, err)
		_, err = v.AddTag("env", "test")
		ok(t, err)
		_, err = v.AddTag("team", "blue")
		ok(t, err)
		a, b := addVM(t, v, "/DC0/vm", "a"), addVM(t, v, "/DC0/vm", "b")
		ok(t, m.AttachTag(c.ctx, prod, a))
		ok(t, m.AttachTag(c.ctx, prod, a)) // attaching again changes nothing
		test, err := m.GetTagForCategory(c.ctx, "test", "env")
		ok(t, err)
		ok(t, m.AttachMultipleTagsToObject(c.ctx, []string{prod, test.ID}, b))
		ok(t, m.DetachTag(c.ctx, prod, b))
		got, err := m.GetAttachedTagsOnObjects(c.ctx, []mo.Reference{a, b})
		ok(t, err)
		if len(got) != 2 || len(got[0].Tags) != 1 || got[0].Tags[0].Name != "prod" || len(got[1].Tags) != 1 || got[1].Tags[0].Name != "test" {
			t.Errorf("got the tags %+v", got)
		}
		for where, want := range map[string][]string{"a": {"env/prod"}, "b": {"env/test"}, template: {}} {
			names, err := v.TagsOf(where)
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("%s has %v (%v), want %v", where, names, err, want)
			}
		}
		calls := v.Calls()
		if calls[attachCall] != 2 || calls[loginCall] != 1 {
			t.Errorf("got the counts %v", calls)
		}
		if soap, sessions := v.Sessions(), v.RESTSessions(); soap != 1 || sessions != 1 {
			t.Errorf("got %d SOAP and %d REST sessions", soap, sessions)
		}
		ok(t, m.Logout(c.ctx))
		if n := v.RESTSessions(); n != 0 {
			t.Errorf("%d sessions after the logout", n)
		}
	})
}

func TestRESTSharesPasswordsAndSessionDrops(t *testing.T) {
	inABubble(t, vcsim.Config{User: "me", Password: "secret"}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m := c.rest(t, v)
		v.SetPassword("other")
		if _, err := m.ListTags(c.ctx); err != nil { // the session stays valid
			t.Error(err)
		}
		stale := c.restClient()
		was := v.URL()
		v.SetPassword("another")
		if err := stale.Login(c.ctx, was.User); !rest.IsStatusError(err, http.StatusUnauthorized) {
			t.Errorf("with the old password: %v", err)
		}
		if in, refused := v.Logins(); in != 2 || refused != 1 {
			t.Errorf("%d accepted and %d rejected logins", in, refused)
		}
		for what, end := range map[string]func(){"dropped": v.DropSessions, "restarted": v.Restart} {
			ok(t, m.Login(c.ctx, v.URL().User))
			end()
			eventually(t, what, func() bool { // at first, the error is a cut connection
				_, err := m.ListTags(c.ctx)
				return rest.IsStatusError(err, http.StatusUnauthorized)
			})
		}
		if n := v.RESTSessions(); n != 0 {
			t.Errorf("got %d sessions", n)
		}
	})
}

func TestRESTSupportsFaultsAndOutages(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m := c.rest(t, v)
		tag, err := v.AddTag("env", "prod")
		ok(t, err)
		vm := addVM(t, v, "/DC0/vm", "vm")
		fails := func(what string, status int) {
			t.Helper()
			if err := m.AttachTag(c.ctx, tag, vm); !rest.IsStatusError(err, status) {
				t.Errorf("%s: %v, want %d", what, err, status)
			}
		}
		v.Deny(attachCall, "InventoryService.Tagging.AttachTag")
		fails("denied", http.StatusForbidden)
		v.Allow(attachCall)
		v.FailCall(attachCall, new(types.SystemError), 1)
		fails("failed", http.StatusInternalServerError)
		v.Hide(vm)
		fails("hidden", http.StatusForbidden)
		v.Show(vm)
		v.Down()
		if err := m.AttachTag(c.ctx, tag, vm); err == nil {
			t.Error("down: the call succeeds")
		}
		v.Up()
		v.LoseReply(attachCall, 1)
		if err := m.AttachTag(c.ctx, tag, vm); err == nil {
			t.Error("the call got a reply")
		}
		if names, err := v.TagsOf("vm"); err != nil || !slices.Equal(names, []string{"env/prod"}) {
			t.Errorf("after the lost reply: %v, %v", names, err)
		}
		ok(t, v.Destroy("vm"))
		fails("gone", http.StatusForbidden)
		if _, err := m.GetTag(c.ctx, "urn:vmomi:InventoryServiceTag:gone:GLOBAL"); !rest.IsStatusError(err, http.StatusNotFound) {
			t.Errorf("missing tag: %v", err)
		}
	})
}

func TestTagAttachesOnlyWhereItsCategoryAllows(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m := c.rest(t, v)
		_, err := v.AddCategory("tier", true)
		ok(t, err)
		_, err = v.AddCategory("storage", false, "Datastore")
		ok(t, err)
		ids := make(map[string]string)
		for tag, category := range map[string]string{"gold": "tier", "silver": "tier", "fast": "storage", "any": "other"} {
			ids[tag], err = v.AddTag(category, tag)
			ok(t, err)
		}
		vm := addVM(t, v, "/DC0/vm", "vm")
		ok(t, m.AttachTag(c.ctx, ids["gold"], vm))
		ok(t, m.AttachTag(c.ctx, ids["gold"], vm))
		ok(t, m.AttachTag(c.ctx, ids["fast"], found(t, v, "/DC0/datastore/LocalDS_0")))
		for _, tag := range []string{"silver", "fast"} {
			if err := m.AttachTag(c.ctx, ids[tag], vm); err == nil || !strings.Contains(err.Error(), "invalid_argument") {
				t.Errorf("%s: %v", tag, err)
			}
		}
		if err := m.AttachMultipleTagsToObject(c.ctx, []string{ids["silver"], ids["any"]}, vm); err == nil {
			t.Error("both tags were attached")
		}
		if names, err := v.TagsOf("vm"); err != nil || !slices.Equal(names, []string{"other/any", "tier/gold"}) {
			t.Errorf("got %v (%v)", names, err)
		}
	})
}

func TestTagsAttachInParallel(t *testing.T) {
	inABubble(t, vcsim.Config{}, func(t *testing.T, v *vcsim.VCenter, c *client) {
		m := c.rest(t, v)
		tag, err := v.AddTag("env", "prod")
		ok(t, err)
		var wg sync.WaitGroup
		for i := range 8 {
			name := fmt.Sprint("vm-", i)
			wg.Go(func() {
				ref := addVM(t, v, "/DC0/vm", name)
				if err := m.AttachTag(c.ctx, tag, ref); err != nil {
					t.Error(err)
				}
				if _, err := m.ListAttachedTagsOnObjects(c.ctx, []mo.Reference{ref}); err != nil {
					t.Error(err)
				}
				if _, err := m.CreateTag(c.ctx, &tags.Tag{Name: name, CategoryID: categoryOf(t, c, m)}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		refs, err := m.ListAttachedObjects(c.ctx, tag)
		if err != nil || len(refs) != 8 {
			t.Errorf("attached to %d objects (%v)", len(refs), err)
		}
	})
}

func categoryOf(t testing.TB, c *client, m *tags.Manager) string {
	t.Helper()
	category, err := m.GetCategory(c.ctx, "env")
	if err != nil {
		t.Error(err)
		return ""
	}
	return category.ID
}
