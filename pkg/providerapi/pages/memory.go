// SPDX-FileCopyrightText: The machine-controller-manager-provider-kubevirt Authors
// SPDX-License-Identifier: Apache-2.0

package pages

import (
	"reflect"
	"time"
)

// costOfEntry is the memory of an entry of a map, in bytes, in addition to its key and value.
const costOfEntry = 16

// MemoryOf returns the memory of a value that a cache or a caller keeps, and of everything that it refers
// to, in bytes, as estimated.
func MemoryOf(value any) int64 { return memoryOf(reflect.ValueOf(&value)) }

// memoryOf estimates the memory of a value and of everything that it refers to, in bytes. It counts a
// value twice if two pointers refer to it. Values must not refer to themselves, which those decoded
// from JSON cannot.
func memoryOf(v reflect.Value) int64 {
	return int64(v.Type().Size()) + referred(v) //nolint:gosec // A type is not that large.
}

// referred estimates the memory of everything that a value refers to.
func referred(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return memoryOf(v.Elem())
		}
	case reflect.Slice:
		return int64(v.Cap())*int64(v.Type().Elem().Size()) + referredByElements(v) //nolint:gosec // see above
	case reflect.Array:
		return referredByElements(v)
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			bytes += memoryOf(entries.Key()) + memoryOf(entries.Value()) + costOfEntry
		}
	case reflect.Struct:
		return referredByFields(v)
	default:
	}

	return bytes
}

func referredByElements(v reflect.Value) (bytes int64) {
	for i := range v.Len() {
		bytes += referred(v.Index(i))
	}

	return bytes
}

func referredByFields(v reflect.Value) (bytes int64) {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return 0 // All times share their location.
	}

	for i := range v.NumField() {
		bytes += referred(v.Field(i))
	}

	return bytes
}
