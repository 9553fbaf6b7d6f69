package vsphere

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"codeconnect.vmworld.com/vmgroup/api/v1alpha1"
	"codeconnect.vmworld.com/vmgroup/vsphere/attributes"
	"codeconnect.vmworld.com/vmgroup/vsphere/session"
	"codeconnect.vmworld.com/vmgroup/vsphere/vcfault"
)

// The server never removes a custom attribute, tag or category that it created, because others may use it by then.
func TestWhatEditsLeaveBehindInVCenterIsBounded(t *testing.T) {
	inABubble(t, func(t *testing.T, w *world, p *process) {
		moRef := p.member(0).MoRef
		_, err := w.AddTag("one", "theirs") // tags of others do not count
		w.must(err)
		for kind, edit := range map[string]func(edit int) v1alpha1.VmGroupSpec{
			"attributes": func(edit int) (s v1alpha1.VmGroupSpec) {
				s.CustomAttributes = map[string]string{}
				for i := range v1alpha1.MaxMarks {
					s.CustomAttributes[fmt.Sprintf("a%d-%d", edit, i)] = "x"
				}
				return s
			},
			"tags": func(edit int) (s v1alpha1.VmGroupSpec) {
				for i := range v1alpha1.MaxMarks {
					s.Tags = append(s.Tags, v1alpha1.Tag{Category: "one", Name: fmt.Sprintf("t%d-%d", edit, i), Create: true})
				}
				return s
			},
			"categories": func(edit int) (s v1alpha1.VmGroupSpec) {
				for i := range 5 {
					s.Tags = append(s.Tags, v1alpha1.Tag{Category: fmt.Sprintf("c%d-%d", edit, i), Name: "t", Create: true})
				}
				return s
			},
		} {
			count := func() (n int) {
				if kind == "attributes" {
					return w.Calls()["AddCustomFieldDef"]
				}
				w.must(p.rest(t.Context(), func(ctx context.Context, rs *session.RESTSession) error {
					list := rs.ListCategories
					if kind == "tags" {
						list = func(ctx context.Context) ([]string, error) { return rs.ListTagsForCategory(ctx, "one") }
					}
					ids, err := list(ctx)
					n = len(ids)
					return err
				}))
				return n
			}
			refused := 0
			for n := range 8 {
				if err := p.Do(t.Context(), web, preparing(p.vm(moRef), edit(n))); err != nil {
					if e := vcfault.Classify("", err); e.Reason != vcfault.ReasonMarkLimit || !e.NeedsOperator || !strings.Contains(e.Message, "administrator") {
						t.Errorf("%s: got the error %v; want %s, for an operator, that names the administrator", kind, err, vcfault.ReasonMarkLimit)
					}
					refused++
				}
			}
			most := map[string]int{"attributes": attributes.MaxForVMs, "tags": 100 + 1, "categories": 20 + 1}[kind]
			if made := count(); made > most || made < most/2 || refused == 0 {
				t.Errorf("%s: %d were created, and %d edits refused; want from %d to %d, and some refused", kind, made, refused, most/2, most)
			}
			p.do(preparing(p.vm(moRef), v1alpha1.VmGroupSpec{})) // a spec without them is carried out
		}
	})
}
