package preflight

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

const mebibyte, gibibyte = 1 << 20, 1 << 30

// decimal returns a number of items.
func decimal(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.DecimalSI) }

// milli returns a number of thousandths.
func milli(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

// binary returns a number of bytes.
func binary(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }

// sum adds the amounts of all lists. It changes none of them.
func sum(lists ...corev1.ResourceList) corev1.ResourceList {
	total := corev1.ResourceList{}

	for _, list := range lists {
		for name, amount := range list {
			added := total[name].DeepCopy()
			added.Add(amount)
			total[name] = added
		}
	}

	return total
}

// minus returns the amounts of a list, less those of another one.
func minus(list, less corev1.ResourceList) corev1.ResourceList {
	rest := list.DeepCopy()

	for name, amount := range less {
		if left, ok := rest[name]; ok {
			left.Sub(amount)
			rest[name] = left
		}
	}

	return rest
}

// times multiplies the amounts of a list.
func times(list corev1.ResourceList, n int64) corev1.ResourceList {
	product := list.DeepCopy()

	for name, amount := range product {
		amount.Mul(n)
		product[name] = amount
	}

	return product
}

// describe formats CPU, memory and the storage of disks for people.
func describe(requests corev1.ResourceList, disks []disk) string {
	var storage resource.Quantity
	for _, d := range disks {
		storage.Add(d.size)
	}

	parts := []string{"cpu " + requests.Cpu().String(), "memory " + inMebibytes(requests.Memory())}
	if len(disks) > 0 {
		parts = append(parts, "storage "+inMebibytes(&storage))
	}

	return strings.Join(parts, ", ")
}

// inMebibytes rounds up to whole MiB for readability.
func inMebibytes(q *resource.Quantity) string {
	return roundedUp(corev1.ResourceMemory, *q)
}

// roundedUp formats an amount of a resource. Bytes are rounded up to whole MiB, or to whole GiB if there are
// many.
func roundedUp(name corev1.ResourceName, amount resource.Quantity) string {
	unit := unitOf(name, amount)
	if unit == 0 {
		return amount.String()
	}

	rounded := binary((amount.Value() + unit - 1) / unit * unit)

	return rounded.String()
}

// roundedDown is like roundedUp, but rounds down.
func roundedDown(name corev1.ResourceName, amount resource.Quantity) string {
	unit := unitOf(name, amount)
	if unit == 0 {
		return amount.String()
	}

	rounded := binary(amount.Value() / unit * unit)

	return rounded.String()
}

// unitOf returns the unit to which an amount is rounded; 0 for numbers of objects and CPUs.
func unitOf(name corev1.ResourceName, amount resource.Quantity) int64 {
	const many = 64

	switch bytes := strings.HasSuffix(string(name), "memory") || strings.HasSuffix(string(name), "storage"); {
	case !bytes:
		return 0
	case amount.Value() >= many*gibibyte:
		return gibibyte
	default:
		return mebibyte
	}
}
