package inventory

import (
	"github.com/vmware/govmomi/vim25/types"
)

// watched are the objects that the stream has reported. It will report when they leave.
type watched struct {
	entered map[string]bool
	// checked are the objects that the stream did not report, and that were read for that reason.
	checked map[string]bool
}

// take notes the objects of an answer, and returns those that left.
func (w watched) take(set *types.UpdateSet) (left []string) {
	for _, filter := range set.FilterSet {
		for _, o := range filter.ObjectSet {
			if o.Kind == types.ObjectUpdateKindLeave {
				delete(w.entered, o.Obj.Value)
				left = append(left, o.Obj.Value)
				continue
			}
			w.entered[o.Obj.Value] = true
			delete(w.checked, o.Obj.Value)
		}
	}
	return left
}
