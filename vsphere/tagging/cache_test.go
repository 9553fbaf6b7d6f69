package tagging

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
	"github.com/vmware/govmomi/vapi/tags"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/sync/plan"
	"codeconnect.vmworld.com/vmgroup/test/must"
	"codeconnect.vmworld.com/vmgroup/vsphere/inventory"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
	"codeconnect.vmworld.com/vmgroup/vsphere/vctest"
)

// tagging is a tag cache with its vCenter.
type tagging struct {
	*restLab
	c     *session.Client
	cache *Cache
	s     *session.Session
	a     plan.Action
}

func startTagging(t testing.TB) *tagging {
	l := startRESTLab(t)
	return &tagging{l, l.client(zerolog.Nop()), NewCache(), new(session.Session), plan.Action{Key: "web-0", MoRef: l.vm("web-0")}}
}

// inABubble runs a test with a tag cache in a synctest bubble, in parallel with other tests.
func inABubble(t *testing.T, test func(t *testing.T, x *tagging)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(t, startTagging(t)) })
}

// vm creates a VM with that name.
func (l *restLab) vm(name string) string {
	l.T.Helper()
	ref, err := l.AddVM("/DC0/vm", name)
	l.Must(err)
	return ref.Value
}

// set sets the tags of the VM to wanted. former are the tags that the previous spec named.
func (x *tagging) set(wanted []v1alpha1.Tag, former ...string) error {
	return x.c.REST(x.T.Context(), x.s, func(ctx context.Context, rs *session.RESTSession) error {
		change, err := x.cache.Change(ctx, rs, x.a, wanted, former)
		if err != nil {
			return err
		}
		if err := session.BatchTags(ctx, rs, session.DetachTags, x.a, change.Detach); err != nil {
			return err
		}
		return session.BatchTags(ctx, rs, session.AttachTags, x.a, change.Attach)
	})
}

func (x *tagging) must(do func(context.Context, *session.RESTSession) error) {
	x.T.Helper()
	if err := x.c.REST(x.T.Context(), x.s, do); err != nil {
		x.T.Fatal(err)
	}
}

// make creates a category with tags.
func (x *tagging) make(category tags.Category, names ...string) {
	x.T.Helper()
	x.must(func(ctx context.Context, rs *session.RESTSession) error {
		id, err := rs.CreateCategory(ctx, &category)
		for _, name := range names {
			if err == nil {
				_, err = rs.CreateTag(ctx, &tags.Tag{Name: name, CategoryID: id})
			}
		}
		return err
	})
}

// has returns the names of the VM's tags.
func (x *tagging) has() (names string) {
	x.T.Helper()
	x.must(func(ctx context.Context, rs *session.RESTSession) error {
		var all []string
		found, err := rs.GetAttachedTags(ctx, inventory.VMRef(x.a.MoRef))
		for _, t := range found {
			all = append(all, t.Name)
		}
		names = vcfault.Listing(all)
		return err
	})
	return names
}

func want(category string, names ...string) (all []v1alpha1.Tag) {
	for _, name := range names {
		all = append(all, v1alpha1.Tag{Category: category, Name: name})
	}
	return all
}

func TestTagsAreAttachedAndDetachedAndForeignOnesStay(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		x.make(tags.Category{Name: "tier", Cardinality: "MULTIPLE"}, "web", "db", "theirs")
		must.Succeed(t, x.set(want("tier", "theirs")))
		if err := x.set(want("tier", "web", "db")); err != nil || x.has() != "db, theirs, web" {
			t.Errorf("got the error %v and the tags %q; want db, theirs and web", err, x.has())
		}
		attached := x.Count("tagging/tag-association " + session.AttachTags)
		if err := x.set(want("tier", "web", "db")); err != nil || x.Count("tagging/tag-association "+session.AttachTags) != attached {
			t.Errorf("the second set ended with %v, after %d calls that attach tags; want none", err, x.Count("tagging/tag-association "+session.AttachTags)-attached)
		}
		if err := x.set(want("tier", "db"), "tier/web", "tier/db", "tier/gone", "gone/gone"); err != nil || x.has() != "db, theirs" {
			t.Errorf("got the error %v and the tags %q; want db and theirs", err, x.has())
		}
	})
}

func TestTheFaultForAMissingTagListsTheExistingOnes(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		x.make(tags.Category{Name: "tier", Cardinality: "MULTIPLE"}, "web", "db")
		x.make(tags.Category{Name: "other"}, "not-listed")
		for _, c := range []struct {
			category, name, says string
		}{{"Tier", "web", "only other, tier"}, {"tier", "wbe", "only db, web:"}} {
			e := vctest.AsError(x.set(want(c.category, c.name)))
			if e == nil || e.Reason != vcfault.ReasonTagNotFound || !e.NeedsOperator || !strings.Contains(e.Message, c.says) {
				t.Errorf("%s/%s: %v", c.category, c.name, e)
			}
		}
		if x.has() != "" {
			t.Errorf("the object has the tags %q; want none", x.has())
		}
		create := []v1alpha1.Tag{{Category: "tier", Name: "new", Create: true}, {Category: "fresh", Name: "fresh", Create: true}}
		if err := x.set(create); err != nil || x.has() != "fresh, new" {
			t.Errorf("got the error %v and the tags %q; want fresh and new", err, x.has())
		}
		x.must(func(ctx context.Context, rs *session.RESTSession) error {
			c, err := rs.GetCategory(ctx, "fresh")
			if err == nil && (c.Cardinality != "MULTIPLE" || len(c.AssociableTypes) != 1 || c.AssociableTypes[0] != "VirtualMachine") {
				t.Errorf("the category is %+v, want it for VMs only, with any number of tags", c)
			}
			return err
		})
	})
}

func TestATagThatAnotherReplicaCreatesAtTheSameTimeIsUsed(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		var all sync.WaitGroup
		for range 4 { // like replicas, each has a cache of its own
			c := x.client(zerolog.Nop())
			all.Go(func() {
				other := *x
				other.c = c
				if err := other.set([]v1alpha1.Tag{{Category: "tier", Name: "web", Create: true}, {Category: "tier", Name: "db", Create: true}}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if x.has() != "db, web" {
			t.Errorf("the object has the tags %q; want db and web", x.has())
		}
	})
}

func TestARetryMakesUpForALostReplyToACreation(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := []string{"POST session", "POST tagging/tag-association?~action=list-attached-tags", "GET tagging/category", "POST tagging/category",
			"POST tagging/tag/id:?~action=list-tags-for-category", "POST tagging/tag", "GET tagging/tag/id:",
			"POST tagging/tag-association?~action=" + session.AttachTags}
		for _, call := range calls {
			x := startTagging(t)
			method := strings.Replace(call, " ", " /rest/com/vmware/cis/", 1)
			x.LoseReply(method, 1)
			create := []v1alpha1.Tag{{Category: "tier", Name: "web", Create: true}}
			e := vctest.AsError(x.set(create))
			if read := strings.HasPrefix(call, "GET "); !read && (e == nil || e.Reason != vcfault.ReasonVCenterUnreachable) { // net/http itself repeats a GET
				t.Errorf("%s: %v", call, e)
			}
			time.Sleep(time.Hour)
			if err := x.set(create); err != nil || x.has() != "web" {
				t.Errorf("%s: got the error %v and the tags %q; want web", call, err, x.has())
			}
			if x.Calls()[method] == 0 {
				t.Errorf("%s was not called", method)
			}
		}
	})
}

func TestACategoryThatAllowsOneTagIsNotGivenTwo(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		x.make(tags.Category{Name: "env", Cardinality: "SINGLE"}, "prod", "test")
		x.make(tags.Category{Name: "hosts", AssociableTypes: []string{"HostSystem"}}, "h")
		conflict := func(says string, wanted []v1alpha1.Tag, former ...string) {
			t.Helper()
			if e := vctest.AsError(x.set(wanted, former...)); e == nil || e.Reason != vcfault.ReasonTagConflict || !e.NeedsOperator || !strings.Contains(e.Message, says) {
				t.Errorf("the error is %v, want a TagConflict with %q", e, says)
			}
		}
		conflict(`"prod" and "test"`, want("env", "prod", "test"))
		conflict(`not for VMs`, want("hosts", "h"))
		must.Succeed(t, x.set(want("env", "prod")))
		conflict(`has the tag "prod"`, want("env", "test"))
		if err := x.set(want("env", "test"), "env/prod"); err != nil || x.has() != "test" {
			t.Errorf("the replacement of the server's own tag ended with %v, and the object has the tags %q; want test alone", err, x.has())
		}
	})
}

func TestAFailedBatchSaysWhyAndADeletedTagIsLookedUpAgain(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		x.make(tags.Category{Name: "tier"}, "web")
		for body, reason := range map[string]string{
			`{"value":{"success":false}}`: vcfault.ReasonTagRefused,
			`{"value":{"success":false,"error_messages":[{"id":"x","default_message":"Tagging cardinality violation."}]}}`:      vcfault.ReasonTagRefused,
			`{"value":{"success":false,"error_messages":[{"id":"cis.tagging.objectNotFound.error","default_message":"gone"}]}}`: vcfault.ReasonInternal,
		} {
			x.Answer("tagging/tag-association "+session.AttachTags, 200, body)
			if e := vctest.AsError(x.set(want("tier", "web"))); e == nil || e.Reason != reason {
				t.Errorf("%s: %v", body, e)
			}
		}
	})
}

// govmomi takes an id that is not a URN for a name, and looks the name up in a recursion that overflows the stack.
func TestAnIDThatIsNotAURNIsNotAVCentersAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for call, bodies := range map[string][]string{
			"GET tagging/category":               {`{"value":[null]}`, `{"value":[""]}`, `{"value":["tier"]}`, `{"value":{"name":"tier"}}`},
			"GET tagging/tag":                    {`{"value":{"name":"web"}}`},
			"tagging/tag list-tags-for-category": {`{"value":[null]}`, `{"value":["web"]}`},
			"POST tagging/category":              {`{"value":""}`, `{"value":null}`},
			"POST tagging/tag":                   {`{"value":""}`},
		} {
			for _, body := range bodies {
				x := startTagging(t)
				wanted := v1alpha1.Tag{Category: "tier", Name: "web"}
				if strings.HasPrefix(call, "POST ") {
					wanted.Name, wanted.Create = "new", true
				}
				if call != "POST tagging/category" {
					x.make(tags.Category{Name: "tier"}, "web")
				}
				for range 20 {
					x.Answer(call, 200, body)
				}
				e := vctest.AsError(x.set([]v1alpha1.Tag{wanted}))
				if e == nil || e.Reason != vcfault.ReasonNotVCenterAPI {
					t.Errorf("%s %s: %v", call, body, e)
				}
			}
		}
	})
}

func TestManyMembersCostFewCallsEach(t *testing.T) {
	inABubble(t, func(t *testing.T, x *tagging) {
		x.make(tags.Category{Name: "tier", Cardinality: "MULTIPLE"}, "web", "db", "x")
		x.must(func(ctx context.Context, rs *session.RESTSession) error {
			_, err := rs.ListCategories(ctx)
			return err
		})
		before := 0
		for _, n := range x.Made() {
			before += n
		}
		var all sync.WaitGroup
		const members = 20
		for i := range members {
			one := *x
			one.a.MoRef = x.vm(fmt.Sprint("vm-", i))
			all.Go(func() {
				if err := one.set(want("tier", "web", "db")); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		sum := -before
		for _, n := range x.Made() {
			sum += n
		}
		if sum > 2*members+10 {
			t.Errorf("%d calls for %d members, want at most %d: %v", sum, members, 2*members+10, x.Made())
		}
	})
}
